// tools/verge/http_connection.cpp -- the states, time limits, reads and writes of one connection.

#include "http_connection.hpp"

#include <verge/io/buffer.hpp>

#include <algorithm>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace verge::tool {

namespace {

// A client that is refused may send that much more before it is cut off.
constexpr std::size_t drain_limit = 256 * 1024;

// What the kernel may keep for a client that does not read.  By itself it would go to megabytes.
constexpr int send_buffer = 64 * 1024;

}  // namespace

http_connection::http_connection(ip::tcp::socket socket, http_service& service, http_owner& owner,
                                 const http_limits& limits)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      session_(service),
      owner_(owner),
      limits_(limits) {}

void http_connection::start() {
    // Neither can fail on an open connection; if it was closed, the first read reports that.
    const int on = 1;
    static_cast<void>(
        ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    static_cast<void>(::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_SNDBUF, &send_buffer,
                                   sizeof send_buffer));
    enter(state::waiting);
    limit(limits_.request);
    read();
}

void http_connection::drop() {
    if (state_ == state::closed) return;
    const auto self = shared_from_this();  // the owner may hold the last other reference
    enter(state::closed);
    deadline_.cancel();
    std::error_code ignored;
    socket_.close(ignored);
    owner_.ended(*this);
}

void http_connection::finish() {
    finishing_ = true;
    session_.close_soon();
    if (state_ == state::waiting || state_ == state::lingering) {
        drop();
    } else if (state_ == state::streaming && !event_pending_) {
        drop();
    }
}

void http_connection::enter(state next) {
    const state before = std::exchange(state_, next);
    if (waits(before) && !waits(next)) owner_.works(*this);
    if (!waits(before) && waits(next)) owner_.waits(*this);
}

// ---- reading ---------------------------------------------------------------------------------

void http_connection::read() {
    const std::size_t most = std::min(input_.size(), session_.room());
    socket_.async_read_some(verge::buffer(input_.data(), most),
                            [self = shared_from_this()](std::error_code error, std::size_t size) {
                                if (waits(self->state_)) self->received(error, size);
                            });
}

void http_connection::received(std::error_code error, std::size_t size) {
    if (error && error != error::eof) return drop();
    peer_ended_ = static_cast<bool>(error);
    session_.receive({input_.data(), size});
    proceed();
}

void http_connection::proceed() {
    if (std::optional<http_output> out = session_.next()) {
        first_ = false;
        return write(std::move(out->bytes), out->then);
    }
    // It needs more, and nothing more comes.
    if (peer_ended_) return drop();
    if (session_.is_idle()) {
        if (finishing_) return drop();
        if (state_ != state::waiting) {
            enter(state::waiting);
            limit(limits_.idle);
        }
    } else if (state_ != state::reading) {
        // The first request has its time from the beginning of the connection.
        enter(state::reading);
        if (!first_) limit(limits_.request);
    }
    read();
}

// ---- writing ---------------------------------------------------------------------------------

void http_connection::write(std::string bytes, http_output::after then) {
    enter(state::writing);
    limit(limits_.write);
    output_ = std::move(bytes);
    then_ = then;
    verge::async_write(socket_, verge::buffer(output_),
                       [self = shared_from_this()](std::error_code error, std::size_t) {
                           if (self->state_ == state::writing) self->written(error);
                       });
}

void http_connection::written(std::error_code error) {
    owner_.counted.requests +=
        session_.requests() - std::exchange(told_requests_, session_.requests());
    owner_.counted.refused += session_.refused() - std::exchange(told_refused_, session_.refused());
    if (error) return drop();
    switch (then_) {
        case http_output::after::more:
            return proceed();
        case http_output::after::close:
            return linger();
        case http_output::after::events:
            return begin_streaming();
    }
}

// Closing with bytes unread would make the system reset the connection, and the client might never
// read the response.  So the sending side is shut down first, and what the client still sends is
// read.
void http_connection::linger() {
    if (peer_ended_) return drop();
    enter(state::lingering);
    limit(limits_.linger);
    std::error_code error;
    socket_.shutdown(ip::tcp::socket::shutdown_send, error);
    if (error) return drop();
    watch();
}

// ---- events ----------------------------------------------------------------------------------

void http_connection::begin_streaming() {
    if (finishing_ || peer_ended_) return drop();
    enter(state::streaming);
    deadline_.cancel();
    watch();
    owner_.streams(*this);
}

// Reads on, to see the end of the connection.
void http_connection::watch() {
    socket_.async_read_some(verge::buffer(input_),
                            [self = shared_from_this()](std::error_code error, std::size_t size) {
                                if (self->state_ == state::closed) return;
                                self->drained_ += size;
                                if (error || self->drained_ > drain_limit) return self->drop();
                                self->watch();
                            });
}

void http_connection::send_event(const std::shared_ptr<const std::string>& event) {
    if (state_ != state::streaming) return;
    if (event_pending_) {
        ++owner_.counted.events_skipped;
        return;
    }
    event_pending_ = true;
    limit(limits_.write);
    verge::async_write(socket_, verge::buffer(*event),
                       [self = shared_from_this(), event](std::error_code error, std::size_t) {
                           if (self->state_ != state::streaming) return;
                           self->event_pending_ = false;
                           if (error || self->finishing_) return self->drop();
                           ++self->owner_.counted.events;
                           self->deadline_.cancel();
                       });
}

// ---- time limits -----------------------------------------------------------------------------

void http_connection::limit(duration time) {
    deadline_.expires_after(time);
    deadline_.async_wait([self = shared_from_this()](std::error_code error) {
        // A wait that had expired already when the limit was moved finds a new one here.
        if (error || self->deadline_.expiry() > clock::now()) return;
        if (self->state_ != state::closed) self->too_late();
    });
}

void http_connection::too_late() {
    if (state_ == state::streaming && !event_pending_) return;
    if (state_ != state::lingering) ++owner_.counted.timed_out;
    if (!waits(state_)) return drop();
    http_output out = session_.time_out();
    if (out.bytes.empty()) return drop();
    // The pending read ends with the connection; its result is not used before.
    write(std::move(out.bytes), out.then);
}

}  // namespace verge::tool
