// tools/verge/http_server.cpp -- accepts connections, and closes the one that has waited longest
// when all places are taken.

#include "http_server.hpp"

#include <chrono>
#include <utility>

#include <sys/socket.h>

namespace verge::tool {

namespace {

constexpr auto retry_after = std::chrono::milliseconds(50);

}  // namespace

http_server::http_server(io_context& io, const ip::tcp::endpoint& at, http_service& service,
                         const http_limits& limits,
                         std::function<std::shared_ptr<const std::string>()> first_event)
    : service_(service),
      limits_(limits),
      first_event_(std::move(first_event)),
      acceptor_(io, at),
      retry_(io),
      grace_(io) {
    accept();
}

http_stats http_server::stats() const {
    http_stats now = counted;
    now.connections_open = connections_.size();
    now.event_clients = event_clients_.size();
    return now;
}

// ---- accepting -------------------------------------------------------------------------------

void http_server::accept() {
    acceptor_.async_accept([this](std::error_code error, ip::tcp::socket socket) {
        if (!stopping_) accepted(error, std::move(socket));
    });
}

void http_server::accepted(std::error_code error, ip::tcp::socket socket) {
    if (error) {
        // No descriptors, no memory: what waits in the kernel's queue is accepted later.
        ++counted.accept_errors;
        evict();
        retry_.expires_after(retry_after);
        retry_.async_wait([this](std::error_code cancelled) {
            if (!cancelled && !stopping_) accept();
        });
        return;
    }
    ++counted.connections;
    if (connections_.size() >= limits_.connections && !evict()) {
        ++counted.turned_away;
        // The buffer of a new connection has room for it.
        const std::string busy =
            closing_response(http_status::service_unavailable, "503: all connections are busy");
        static_cast<void>(
            ::send(socket.native_handle(), busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    } else {
        http_owner& owner = *this;
        auto made = std::make_shared<http_connection>(std::move(socket), service_, owner, limits_);
        connections_.emplace(made.get(), made);
        made->start();
    }
    accept();
}

bool http_server::evict() {
    if (waiting_.empty()) return false;
    ++counted.evicted;
    waiting_.front()->drop();
    return true;
}

// ---- events of connections -------------------------------------------------------------------

void http_server::waits(http_connection& connection) {
    waiting_at_[&connection] = waiting_.insert(waiting_.end(), &connection);
}

void http_server::works(http_connection& connection) {
    const auto found = waiting_at_.find(&connection);
    waiting_.erase(found->second);
    waiting_at_.erase(found);
}

void http_server::streams(http_connection& connection) {
    event_clients_.insert(&connection);
    connection.send_event(first_event_());
}

void http_server::ended(http_connection& connection) {
    event_clients_.erase(&connection);
    // The connection still runs: the handler that called this holds it.
    connections_.erase(&connection);
    if (stopping_ && connections_.empty()) grace_.cancel();
}

// ---- all of them -----------------------------------------------------------------------------

// Connections may end while they are gone through.
std::list<std::shared_ptr<http_connection>> http_server::all() const {
    std::list<std::shared_ptr<http_connection>> list;
    for (const auto& [_, connection] : connections_)
        list.push_back(connection);
    return list;
}

void http_server::broadcast(const std::shared_ptr<const std::string>& event) {
    for (http_connection* const client : std::set(event_clients_))
        client->send_event(event);
}

void http_server::stop(duration grace) {
    stopping_ = true;
    acceptor_.close();
    retry_.cancel();
    for (const auto& connection : all())
        connection->finish();
    if (connections_.empty()) return;
    grace_.expires_after(grace);
    grace_.async_wait([this](std::error_code cancelled) {
        if (cancelled) return;
        for (const auto& connection : all())
            connection->drop();
    });
}

}  // namespace verge::tool
