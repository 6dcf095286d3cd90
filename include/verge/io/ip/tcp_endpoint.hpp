// verge/io/ip/tcp_endpoint.hpp -- addresses, the protocol, and an address with a port.
//
//     verge::ip::tcp::endpoint all(verge::ip::tcp::v4(), 8080);
//     verge::ip::tcp::endpoint one(verge::ip::make_address("::1"), 8080);     // one.protocol() is
//     v6
//
// Names are not resolved.  Sockets: verge/io/ip/tcp.hpp.
//
// Thread safety: values.  Exceptions: make_address without an error_code throws std::system_error.

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

/// An IPv4 or IPv6 address.
class address {
public:
    /// 0.0.0.0
    address() noexcept = default;
    [[nodiscard]] static address loopback_v4() noexcept;
    [[nodiscard]] static address any_v6() noexcept;
    [[nodiscard]] bool is_v6() const noexcept { return is_v6_; }
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

/// Throws std::system_error, invalid_argument, if the text is no address.
[[nodiscard]] address make_address(const std::string& text);
[[nodiscard]] address make_address(const std::string& text, std::error_code& error);

class tcp_endpoint;

/// The protocol: of IPv4 or of IPv6.
class tcp {
public:
    using endpoint = tcp_endpoint;
    [[nodiscard]] static constexpr tcp v4() noexcept { return tcp(false); }
    [[nodiscard]] static constexpr tcp v6() noexcept { return tcp(true); }
    [[nodiscard]] constexpr int family() const noexcept { return is_v6_ ? AF_INET6 : AF_INET; }
    [[nodiscard]] constexpr int type() const noexcept { return SOCK_STREAM; }
    [[nodiscard]] constexpr int protocol() const noexcept { return IPPROTO_TCP; }
    friend constexpr bool operator==(tcp, tcp) noexcept = default;

    /// Sends small pieces at once.
    using no_delay = verge::detail::io::boolean_option<IPPROTO_TCP, TCP_NODELAY>;

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

/// An address and a port.
class tcp_endpoint {
public:
    using protocol_type = tcp;

    tcp_endpoint() noexcept : tcp_endpoint(tcp::v4(), 0) {}
    /// Of all addresses of this machine.
    tcp_endpoint(const tcp& version, std::uint16_t port) noexcept;
    tcp_endpoint(const ip::address& at, std::uint16_t port) noexcept;

    [[nodiscard]] ip::address address() const noexcept;
    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] tcp protocol() const noexcept {
        return storage_.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
    }
    [[nodiscard]] const sockaddr* data() const noexcept {
        return reinterpret_cast<const sockaddr*>(&storage_);
    }
    [[nodiscard]] socklen_t size() const noexcept;
    friend bool operator==(const tcp_endpoint& a, const tcp_endpoint& b) noexcept {
        return a.address() == b.address() && a.port() == b.port();
    }

    /// Of the library: what a system call fills.
    [[nodiscard]] sockaddr* data() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }

private:
    sockaddr_storage storage_{};
};

}  // namespace ip

}  // namespace verge
