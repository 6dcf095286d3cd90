// tools/verge/http_server.hpp -- accepts the clients of `verge serve`, and keeps them.
//
// When all places are taken, the connection that has waited longest for its client to send a
// request is closed to make room; if none waits, the new one is answered 503.  When the system has
// no descriptors left, the same is done, and accepting is retried a little later.
//
// Thread safety: none, all on the loop's one thread.

#pragma once

#include "http_connection.hpp"
#include "http_service.hpp"
#include <verge/io/io_context.hpp>
#include <verge/io/ip/tcp.hpp>
#include <verge/io/steady_timer.hpp>

#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>

namespace verge::tool {

class http_server final : private http_owner {
public:
    /// Listens.  Throws std::system_error.  `first_event` gives what a new client for events gets.
    http_server(io_context& io, const ip::tcp::endpoint& at, http_service& service,
                const http_limits& limits,
                std::function<std::shared_ptr<const std::string>()> first_event);
    ~http_server() = default;

    [[nodiscard]] ip::tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
    [[nodiscard]] http_stats stats() const;
    [[nodiscard]] bool room_for_events() const {
        return event_clients_.size() < limits_.event_clients;
    }

    /// To every client that wants events.
    void broadcast(const std::shared_ptr<const std::string>& event);

    /// Accepts no more, lets what is under way come to its end, and cuts off what has none after
    /// `grace`.  The loop has no work of the server left then.
    void stop(duration grace);

private:
    void waits(http_connection& connection) override;
    void works(http_connection& connection) override;
    void streams(http_connection& connection) override;
    void ended(http_connection& connection) override;

    void accept();
    void accepted(std::error_code error, ip::tcp::socket socket);
    bool evict();
    [[nodiscard]] std::list<std::shared_ptr<http_connection>> all() const;

    http_service& service_;
    http_limits limits_;
    std::function<std::shared_ptr<const std::string>()> first_event_;
    ip::tcp::acceptor acceptor_;
    steady_timer retry_;
    steady_timer grace_;
    bool stopping_ = false;
    std::unordered_map<http_connection*, std::shared_ptr<http_connection>> connections_;
    std::set<http_connection*> event_clients_;
    // Those that wait for their clients, the longest first.
    std::list<http_connection*> waiting_;
    std::unordered_map<http_connection*, std::list<http_connection*>::iterator> waiting_at_;
};

}  // namespace verge::tool
