// verge/io/ip/tcp_endpoint.hpp -- IP addresses, the protocol TCP, and an address with a port.
//
//     verge::ip::tcp::endpoint all(verge::ip::tcp::v4(), 8080);
//     verge::ip::tcp::endpoint one(verge::ip::make_address("::1"), 8080);  // one.protocol() is v6
//
// Values only; sockets are in verge/io/ip/tcp.hpp.  There is no resolver: names are not resolved.
// Scope ids of IPv6 (fe80::1%eth0) are neither parsed nor compared.
//
// Thread safety: as an int.
// Exceptions: make_address without an error_code throws std::system_error; to_string throws
// std::bad_alloc.

#pragma once

#include <verge/io/any_io_executor.hpp>
#include <verge/io/socket_base.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace verge {

namespace ip {

/// An IPv4 or IPv6 address.  Asio has three types for it; this is the one with both.
class address {
public:
    /// 0.0.0.0: any IPv4 address of this machine.
    address() noexcept = default;
    /// 127.0.0.1
    [[nodiscard]] static address loopback_v4() noexcept;
    /// ::, any IPv6 address of this machine.
    [[nodiscard]] static address any_v6() noexcept;
    [[nodiscard]] bool is_v6() const noexcept { return is_v6_; }
    /// The text form, as inet_ntop(3) writes it: make_address() reads it back.
    [[nodiscard]] std::string to_string() const;
    friend bool operator==(const address& a, const address& b) noexcept {
        return a.is_v6_ == b.is_v6_ && std::memcmp(a.bytes_, b.bytes_, sizeof a.bytes_) == 0;
    }

private:
    friend class tcp_endpoint;
    friend address make_address(const std::string& text, std::error_code& error);
    bool is_v6_ = false;
    unsigned char bytes_[16] = {};
};

/// Parses an address, IPv4 in dotted form or IPv6, as inet_pton(3) does.  If `text` is not one,
/// throws std::system_error with error::invalid_argument, or sets `error` to that and returns
/// 0.0.0.0.
[[nodiscard]] address make_address(const std::string& text);
[[nodiscard]] address make_address(const std::string& text, std::error_code& error);

class tcp_endpoint;

/// The protocol, over IPv4 or over IPv6, and the names of its sockets.
class tcp {
public:
    using endpoint = tcp_endpoint;
    [[nodiscard]] static constexpr tcp v4() noexcept { return tcp(false); }
    [[nodiscard]] static constexpr tcp v6() noexcept { return tcp(true); }
    /// The arguments of socket(2).
    [[nodiscard]] constexpr int family() const noexcept { return is_v6_ ? AF_INET6 : AF_INET; }
    [[nodiscard]] constexpr int type() const noexcept { return SOCK_STREAM; }
    [[nodiscard]] constexpr int protocol() const noexcept { return IPPROTO_TCP; }
    friend constexpr bool operator==(tcp, tcp) noexcept = default;

    /// TCP_NODELAY: sends small segments at once, without Nagle's algorithm.
    using no_delay = verge::detail::io::boolean_option<IPPROTO_TCP, TCP_NODELAY>;

    /// Defined in verge/io/ip/tcp.hpp.
    template <class Executor>
    class basic_socket;
    template <class Executor>
    class basic_acceptor;
    using socket = basic_socket<any_io_executor>;
    using acceptor = basic_acceptor<any_io_executor>;

private:
    constexpr explicit tcp(bool is_v6) noexcept : is_v6_(is_v6) {}
    bool is_v6_;
};

/// An address and a port, in the form that system calls take.
class tcp_endpoint {
public:
    using protocol_type = tcp;

    /// 0.0.0.0, port 0.
    tcp_endpoint() noexcept : tcp_endpoint(tcp::v4(), 0) {}
    /// All addresses of this machine, to bind to.  Port 0: the system chooses one.
    tcp_endpoint(const tcp& version, std::uint16_t port) noexcept;
    /// That address and port; the protocol follows from the address.
    tcp_endpoint(const ip::address& at, std::uint16_t port) noexcept;

    [[nodiscard]] ip::address address() const noexcept;
    /// In host byte order.
    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] tcp protocol() const noexcept {
        return storage_.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
    }
    /// For system calls: the address structure, and its size() in bytes.
    [[nodiscard]] const sockaddr* data() const noexcept {
        return reinterpret_cast<const sockaddr*>(&storage_);
    }
    [[nodiscard]] socklen_t size() const noexcept;
    friend bool operator==(const tcp_endpoint& a, const tcp_endpoint& b) noexcept {
        return a.address() == b.address() && a.port() == b.port();
    }

    /// For the library: a system call writes to it.
    [[nodiscard]] sockaddr* data() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }

private:
    sockaddr_storage storage_{};
};

}  // namespace ip

}  // namespace verge
