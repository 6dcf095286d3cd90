// tools/verge/http_connection.hpp -- one client of `verge serve`: a socket, a session, a deadline.
//
// Every state has a time limit, on a timer of our own loop:
//
//     waiting     for the first byte of a request        limits.idle; limits.request at first
//     reading     from the first byte to the end of it   limits.request, then 408
//     writing     a response, or an event                limits.write
//     streaming   between two events                     none: the server ends it
//     lingering   after the last response, so that a     limits.linger
//                 client which still sends can read it
//
// It lives as long as one of its operations is pending, and notifies its owner when it ends.
//
// Thread safety: none, all on the loop's one thread.

#pragma once

#include "http_session.hpp"
#include <verge/base/clock.hpp>
#include <verge/io/ip/tcp.hpp>
#include <verge/io/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>

namespace verge::tool {

struct http_limits {
    duration request = std::chrono::seconds(10);
    duration idle = std::chrono::seconds(30);
    duration write = std::chrono::seconds(10);
    duration linger = std::chrono::seconds(1);
    std::size_t connections = 4096;
    std::size_t event_clients = 64;
};

class http_connection;

/// The events of a connection, for its owner.
class http_owner {
public:
    http_owner() = default;
    http_owner(const http_owner&) = delete;
    http_owner& operator=(const http_owner&) = delete;

    virtual void waits(http_connection& connection) = 0;    // for its client to send a request
    virtual void works(http_connection& connection) = 0;    // no longer waits for that
    virtual void streams(http_connection& connection) = 0;  // wants events from now on
    virtual void ended(http_connection& connection) = 0;    // closed; called once

    http_stats counted;  // written by the connections too

protected:
    ~http_owner() = default;
};

class http_connection : public std::enable_shared_from_this<http_connection> {
public:
    http_connection(ip::tcp::socket socket, http_service& service, http_owner& owner,
                    const http_limits& limits);

    void start();
    /// Closes at once.
    void drop();
    /// Closes as soon as what is under way is through: at once if the client is not waited upon.
    void finish();
    /// Sends an event, if the one before has gone out; else skips it.
    void send_event(const std::shared_ptr<const std::string>& event);

private:
    enum class state { waiting, reading, writing, streaming, lingering, closed };

    static bool waits(state s) noexcept { return s == state::waiting || s == state::reading; }
    void enter(state next);
    void read();
    void received(std::error_code error, std::size_t size);
    void proceed();
    void write(std::string bytes, http_output::after then);
    void written(std::error_code error);
    void begin_streaming();
    void watch();
    void linger();
    void limit(duration time);
    void too_late();

    ip::tcp::socket socket_;
    steady_timer deadline_;
    http_session session_;
    http_owner& owner_;
    const http_limits& limits_;
    state state_ = state::closed;
    bool first_ = true;           // no request has come yet
    bool peer_ended_ = false;     // the client sends no more
    bool event_pending_ = false;  // one is on its way out
    bool finishing_ = false;
    std::uint64_t told_requests_ = 0;  // of the session's requests, reported to the owner
    std::uint64_t told_refused_ = 0;
    std::string output_;
    http_output::after then_ = http_output::after::more;
    std::array<char, 4096> input_{};
    std::size_t drained_ = 0;
};

}  // namespace verge::tool
