// src/io/io_handle.cpp -- registers descriptors with the reactor, and makes the system calls of one
// attempt.

#include <verge/base/detail/kernel.hpp>
#include <verge/io/detail/io_handle.hpp>

#include <cerrno>
#include <new>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verge::detail::io {

namespace {

std::error_code last_error() noexcept {
    return {errno, std::system_category()};
}

bool would_block(int number) noexcept {
    return number == EAGAIN || number == EWOULDBLOCK;
}

}  // namespace

void io_operation::finished(fd_operation& base, std::error_code aborted, void* sink) {
    auto& self = static_cast<io_operation&>(base);
    if (aborted) self.error = error::operation_aborted;
    if (self.place != nullptr) self.place->end();
    if (sink != nullptr) {
        static_cast<ready_sink*>(sink)->add(&self);
        return;
    }
    op_queue one;
    one.push(&self);
    self.loop_.post_announced(one, 1);
}

std::error_code io_handle::assign(int fd, reactor::after_fork then) noexcept {
    if (fd_ >= 0) return error::already_open;
    const int flags = os::fcntl_get_flags(fd);
    if (flags < 0 || os::fcntl_set_flags(fd, flags | O_NONBLOCK) < 0) return last_error();
    try {
        registered_ = reactor_.add(fd, then);
    } catch (const std::system_error& refused) {
        return refused.code();
    } catch (const std::bad_alloc&) {
        return error::no_memory;
    }
    fd_ = fd;
    return {};
}

int io_handle::release() noexcept {
    if (fd_ < 0) return -1;
    reactor_.remove(std::exchange(registered_, nullptr));
    return std::exchange(fd_, -1);
}

std::error_code io_handle::close() noexcept {
    const int fd = release();
    if (fd < 0) return {};
    return os::close(fd) == 0 ? std::error_code() : last_error();
}

std::size_t io_handle::cancel() noexcept {
    return registered_ != nullptr ? reactor_.cancel(*registered_) : 0;
}

void io_handle::cancel(fd_event event, io_operation& op) noexcept {
    if (registered_ != nullptr) reactor_.cancel(*registered_, event, op);
}

void io_handle::start(fd_event event, io_operation& op) {
    if (registered_ == nullptr) {
        op.error = error::bad_descriptor;
        return fail(op);
    }
    loop_.wait_begun();
    reactor_.start(*registered_, event, op);
}

void io_handle::fail(io_operation& op) noexcept {
    loop_.wait_begun();
    static_cast<fd_operation&>(op).finish({}, nullptr);
}

io_result read_some(int fd, void* data, std::size_t size) noexcept {
    for (;;) {
        const ssize_t got = os::read(fd, data, size);
        if (got > 0 || (got == 0 && size == 0)) return {{}, static_cast<std::size_t>(got)};
        if (got == 0) return {error::eof};
        if (errno == EINTR) continue;
        if (would_block(errno)) return {{}, 0, true};
        return {last_error()};
    }
}

io_result write_some(int fd, const void* data, std::size_t size) noexcept {
    for (;;) {
        // Not write(2): a connection that the peer has closed is an error, and not a SIGPIPE.
        ssize_t put = os::send(fd, data, size, MSG_NOSIGNAL);
        if (put < 0 && errno == ENOTSOCK) put = os::write(fd, data, size);
        if (put >= 0) return {{}, static_cast<std::size_t>(put)};
        if (errno == EINTR) continue;
        if (would_block(errno)) return {{}, 0, true};
        return {last_error()};
    }
}

io_result read_some(int fd, std::span<const iovec> parts) noexcept {
    for (;;) {
        const ssize_t got = os::readv(fd, parts.data(), static_cast<int>(parts.size()));
        if (got > 0 || (got == 0 && parts.empty())) return {{}, static_cast<std::size_t>(got)};
        if (got == 0) return {error::eof};
        if (errno == EINTR) continue;
        if (would_block(errno)) return {{}, 0, true};
        return {last_error()};
    }
}

io_result write_some(int fd, std::span<const iovec> parts) noexcept {
    msghdr all{};
    all.msg_iov = const_cast<iovec*>(parts.data());  // sendmsg(2) only reads it
    all.msg_iovlen = parts.size();
    for (;;) {
        ssize_t put = os::sendmsg(fd, &all, MSG_NOSIGNAL);  // as above
        if (put < 0 && errno == ENOTSOCK) {
            put = os::writev(fd, parts.data(), static_cast<int>(parts.size()));
        }
        if (put >= 0) return {{}, static_cast<std::size_t>(put)};
        if (errno == EINTR) continue;
        if (would_block(errno)) return {{}, 0, true};
        return {last_error()};
    }
}

bool is_ready_now(int fd, fd_event event) noexcept {
    constexpr short asked[] = {POLLIN, POLLOUT, POLLPRI};
    pollfd look{fd, asked[static_cast<std::size_t>(event)], 0};
    return os::poll(&look, 1, 0) > 0;
}

void wait_ready(int fd, fd_event event) noexcept {
    constexpr short asked[] = {POLLIN, POLLOUT, POLLPRI};
    pollfd look{fd, asked[static_cast<std::size_t>(event)], 0};
    os::poll(&look, 1, -1);
}

}  // namespace verge::detail::io
