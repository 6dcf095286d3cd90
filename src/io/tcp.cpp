// src/io/tcp.cpp -- addresses and endpoints, and the system calls of TCP sockets and acceptors.

#include <verge/base/detail/kernel.hpp>
#include <verge/io/ip/tcp.hpp>

#include <cerrno>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verge {

namespace {

std::error_code last_error() noexcept {
    return {errno, std::system_category()};
}

}  // namespace

namespace ip {

address address::loopback_v4() noexcept {
    address a;
    a.bytes_[0] = 127;
    a.bytes_[3] = 1;
    return a;
}

address address::any_v6() noexcept {
    address a;
    a.is_v6_ = true;
    return a;
}

std::string address::to_string() const {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(is_v6_ ? AF_INET6 : AF_INET, bytes_, text, sizeof text);
    return text;
}

address make_address(const std::string& text, std::error_code& error) {
    address a;
    error.clear();
    if (::inet_pton(AF_INET, text.c_str(), a.bytes_) == 1) return a;
    a.is_v6_ = true;
    if (::inet_pton(AF_INET6, text.c_str(), a.bytes_) == 1) return a;
    error = error::invalid_argument;
    return {};
}

address make_address(const std::string& text) {
    std::error_code error;
    const address a = make_address(text, error);
    if (error) throw std::system_error(error, "make_address");
    return a;
}

tcp_endpoint::tcp_endpoint(const tcp& version, std::uint16_t port) noexcept
    : tcp_endpoint(version == tcp::v6() ? ip::address::any_v6() : ip::address(), port) {}

tcp_endpoint::tcp_endpoint(const ip::address& at, std::uint16_t port) noexcept {
    if (at.is_v6()) {
        auto& v6 = reinterpret_cast<sockaddr_in6&>(storage_);
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        std::memcpy(&v6.sin6_addr, at.bytes_, 16);
    } else {
        auto& v4 = reinterpret_cast<sockaddr_in&>(storage_);
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        std::memcpy(&v4.sin_addr, at.bytes_, 4);
    }
}

ip::address tcp_endpoint::address() const noexcept {
    ip::address a;
    a.is_v6_ = storage_.ss_family == AF_INET6;
    if (a.is_v6_) {
        std::memcpy(a.bytes_, &reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr, 16);
    } else {
        std::memcpy(a.bytes_, &reinterpret_cast<const sockaddr_in&>(storage_).sin_addr, 4);
    }
    return a;
}

std::uint16_t tcp_endpoint::port() const noexcept {
    return ntohs(storage_.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(storage_).sin_port);
}

socklen_t tcp_endpoint::size() const noexcept {
    return storage_.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

}  // namespace ip

namespace detail::io {

std::error_code open_socket(io_handle& handle, const ip::tcp& protocol) noexcept {
    if (handle.fd() >= 0) return error::already_open;
    const int fd = os::socket(protocol.family(), protocol.type() | SOCK_CLOEXEC | SOCK_NONBLOCK,
                              protocol.protocol());
    if (fd < 0) return last_error();
    const std::error_code error = handle.assign(fd);
    if (error) os::close(fd);
    return error;
}

std::error_code connect_work::begin(io_handle& handle) noexcept {
    if (handle.fd() < 0) {
        if (const std::error_code error = open_socket(handle, to.protocol())) return error;
    }
    fd = handle.fd();
    if (os::connect(fd, to.data(), to.size()) == 0) return {};
    // A connect(2) that a signal interrupts continues in the background.
    pending = errno == EINPROGRESS || errno == EINTR;
    return pending ? std::error_code() : last_error();
}

bool connect_work::attempt(std::error_code& error) {
    if (!pending) return true;
    if (!is_ready_now(fd, fd_event::write)) return false;
    int result = 0;
    socklen_t size = sizeof result;
    if (os::getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &size) != 0) result = errno;
    error = std::error_code(result, std::system_category());
    return true;
}

accept_work::~accept_work() {
    if (accepted_ >= 0) os::close(accepted_);
}

bool accept_work::attempt(std::error_code& error) {
    for (;;) {
        accepted_ = os::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (accepted_ >= 0) return true;
        switch (errno) {
            case EINTR:
            case ECONNABORTED:  // the peer has reset it before the accept: take the next one
                continue;
            case EAGAIN:
                return false;
            default:
                error = last_error();
                return true;
        }
    }
}

std::error_code bind_socket(int fd, const ip::tcp_endpoint& at) noexcept {
    return os::bind(fd, at.data(), at.size()) == 0 ? std::error_code() : last_error();
}

std::error_code listen_at(int fd, int backlog) noexcept {
    return os::listen(fd, backlog) == 0 ? std::error_code() : last_error();
}

ip::tcp protocol_of(int fd) noexcept {
    int family = AF_INET;
    socklen_t size = sizeof family;
    os::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    return family == AF_INET6 ? ip::tcp::v6() : ip::tcp::v4();
}

std::error_code set_socket_option(int fd, int level, int name, const void* data,
                                  std::size_t size) noexcept {
    const auto length = static_cast<socklen_t>(size);
    return os::setsockopt(fd, level, name, data, length) == 0 ? std::error_code() : last_error();
}

std::error_code socket_option_of(int fd, int level, int name, void* data,
                                 std::size_t& size) noexcept {
    auto length = static_cast<socklen_t>(size);
    if (os::getsockopt(fd, level, name, data, &length) != 0) return last_error();
    size = length;
    return {};
}

std::error_code endpoint_of(int fd, bool remote, ip::tcp_endpoint& to) noexcept {
    socklen_t size = sizeof(sockaddr_storage);
    const int result =
        remote ? os::getpeername(fd, to.data(), &size) : os::getsockname(fd, to.data(), &size);
    return result == 0 ? std::error_code() : last_error();
}

std::error_code shut_down(int fd, int how) noexcept {
    return os::shutdown(fd, how) == 0 ? std::error_code() : last_error();
}

}  // namespace detail::io
}  // namespace verge
