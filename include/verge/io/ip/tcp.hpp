// verge/io/ip/tcp.hpp -- TCP: sockets that connect, read and write, and acceptors.
//
//     verge::ip::tcp::acceptor acceptor(io, {verge::ip::tcp::v4(), 8080});   //
//     examples/echo_server.cpp acceptor.async_accept([](std::error_code error,
//     verge::ip::tcp::socket socket) { ... });
//
//     verge::ip::tcp::socket socket(io);
//     socket.async_connect({verge::ip::make_address("127.0.0.1"), 8080}, handler);
//     socket.async_read_some(verge::buffer(data), handler);
//     verge::async_write(socket, verge::buffer(text), handler);              // all of it
//
// Enough for an HTTP service or an echo server.  Not a resolver: it takes addresses, not names.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/descriptor_test.cpp)
//   ConnectsAndAccepts      EchoesManyConnections      EchoesTenThousandConnections
//   ARefusedConnectionSaysSo
//   AResetIsAnError         AHalfClosedPeerIsEof       AcceptSaysThatDescriptorsRanOut
//   WithTimeoutEndsAnIdleRead
//
// Thread safety: none, one object.  Exceptions: std::system_error where there is no error_code.

#pragma once

#include <verge/io/posix/descriptor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <netinet/in.h>

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

struct tcp_version {
    bool is_v6;
};

/// An address and a port.
class tcp_endpoint {
public:
    tcp_endpoint() noexcept : tcp_endpoint(tcp_version{false}, 0) {}
    /// Of all addresses of this machine.
    tcp_endpoint(tcp_version version, std::uint16_t port) noexcept;
    tcp_endpoint(const ip::address& at, std::uint16_t port) noexcept;

    [[nodiscard]] ip::address address() const noexcept;
    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
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

namespace detail {

struct accept_work : fd_work {
    int accepted = -1;
    bool attempt(std::error_code& error);
};
struct connect_work {
    static constexpr const char* name = "async_connect";
    explicit connect_work(const ip::tcp_endpoint& remote) noexcept : to(remote) {}
    /// Opens the handle, if it is not open, and connects.
    std::error_code begin(io_handle& handle) noexcept;
    bool attempt(std::error_code& error);
    template <class Home, class Handler>
    void call(Home& home, Handler& handler, std::error_code error) const {
        home(handler, error);
    }
    ip::tcp_endpoint to;
    int fd = -1;
    bool pending = false;  // connect(2) goes on
};

[[nodiscard]] int open_socket(int family, std::error_code& error) noexcept;
[[nodiscard]] std::error_code bind_and_listen(int fd, const ip::tcp_endpoint& at, bool reuse,
                                              int backlog) noexcept;
[[nodiscard]] std::error_code endpoint_of(int fd, bool remote, ip::tcp_endpoint& to) noexcept;
[[nodiscard]] std::error_code shut_down(int fd, int how) noexcept;
[[nodiscard]] std::error_code set_no_delay(int fd, bool on) noexcept;
void close_fd(int fd) noexcept;

}  // namespace detail

namespace ip {

class tcp {
public:
    using endpoint = tcp_endpoint;
    [[nodiscard]] static constexpr tcp_version v4() noexcept { return {false}; }
    [[nodiscard]] static constexpr tcp_version v6() noexcept { return {true}; }

    template <class Executor>
    class basic_socket;
    template <class Executor>
    class basic_acceptor;
    using socket = basic_socket<any_io_executor>;
    using acceptor = basic_acceptor<any_io_executor>;
};

template <class Executor>
class tcp::basic_socket
    : public verge::detail::basic_io_object<Executor, verge::detail::socket_kind> {
    using base = verge::detail::basic_io_object<Executor, verge::detail::socket_kind>;

public:
    enum shutdown_type { shutdown_receive, shutdown_send, shutdown_both };

    /// The same socket with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_socket<Other>;
    };

    explicit basic_socket(const Executor& ex) : base(ex) {}
    template <verge::detail::context_with_executor Context>
    explicit basic_socket(Context& context) : base(context.get_executor()) {}

    /// Opens it, if it is not open, and connects: void(error_code).
    template <class Token = deferred_t>
    auto async_connect(const tcp_endpoint& to, Token&& token = Token()) {
        return base::template begin<void(std::error_code)>(
            fd_event::write, verge::detail::connect_work(to), std::forward<Token>(token));
    }
    /// The same, blocking.
    void connect(const tcp_endpoint& to) {
        verge::detail::connect_work work(to);
        std::error_code error = work.begin(base::handle());
        while (!error && !work.attempt(error))
            verge::detail::wait_ready(base::native_handle(), fd_event::write);
        base::check(error, "connect");
    }

    void shutdown(shutdown_type what, std::error_code& error) {
        error = verge::detail::shut_down(base::native_handle(), static_cast<int>(what));
    }
    void shutdown(shutdown_type what) {
        base::check(verge::detail::shut_down(base::native_handle(), static_cast<int>(what)),
                    "shutdown");
    }
    /// Sends small pieces at once (TCP_NODELAY).
    void no_delay(bool on) {
        base::check(verge::detail::set_no_delay(base::native_handle(), on), "setsockopt");
    }
    [[nodiscard]] tcp_endpoint local_endpoint() const {
        tcp_endpoint at;
        base::check(verge::detail::endpoint_of(base::native_handle(), false, at), "getsockname");
        return at;
    }
    [[nodiscard]] tcp_endpoint remote_endpoint() const {
        tcp_endpoint at;
        base::check(verge::detail::endpoint_of(base::native_handle(), true, at), "getpeername");
        return at;
    }
};

template <class Executor>
class tcp::basic_acceptor
    : public verge::detail::basic_io_object<Executor, verge::detail::socket_kind> {
    using base = verge::detail::basic_io_object<Executor, verge::detail::socket_kind>;
    using socket_type = basic_socket<Executor>;

public:
    /// The same acceptor with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_acceptor<Other>;
    };

    /// Opens, binds and listens.  Port 0: the system chooses, see local_endpoint().
    basic_acceptor(const Executor& ex, const tcp_endpoint& at, bool reuse_address = true,
                   int backlog = SOMAXCONN)
        : base(ex) {
        std::error_code error;
        const int fd = verge::detail::open_socket(at.family(), error);
        base::check(error, "socket");
        base::assign(fd, error);
        if (error) verge::detail::close_fd(fd);
        base::check(error, "assign");
        base::check(verge::detail::bind_and_listen(fd, at, reuse_address, backlog), "bind");
    }
    template <verge::detail::context_with_executor Context>
    basic_acceptor(Context& context, const tcp_endpoint& at, bool reuse_address = true)
        : basic_acceptor(Executor(context.get_executor()), at, reuse_address) {}

    /// Calls a handler, void(error_code, socket), for the next connection.  After an error such as
    /// no_descriptors the connection still waits: accept it later; after no_memory it is closed.
    template <class Token = deferred_t>
    auto async_accept(Token&& token = Token()) {
        return base::template begin<void(std::error_code, socket_type)>(
            fd_event::read, accept_socket(base::get_executor()), std::forward<Token>(token));
    }

    [[nodiscard]] tcp_endpoint local_endpoint() const {
        tcp_endpoint at;
        base::check(verge::detail::endpoint_of(base::native_handle(), false, at), "getsockname");
        return at;
    }

private:
    // Owns the connection until the handler gets it: the operation may be destroyed before.
    struct accept_socket {
        static constexpr const char* name = "async_accept";
        explicit accept_socket(const Executor& with) : ex(with) {}
        accept_socket(const accept_socket& other) : ex(other.ex) {}  // before it is launched
        accept_socket(accept_socket&& other) noexcept
            : work{other.work, std::exchange(other.work.accepted, -1)},
              ex(other.ex),
              made(std::move(other.made)) {}
        accept_socket& operator=(const accept_socket&) = delete;
        accept_socket& operator=(accept_socket&&) = delete;
        ~accept_socket() {
            if (work.accepted >= 0) verge::detail::close_fd(work.accepted);
        }
        // The socket is made before anything begins: the handler is called with one in any case.
        void prepare() { made.emplace(ex); }
        std::error_code begin(const verge::detail::io_handle& handle) noexcept {
            return work.begin(handle);
        }
        bool attempt(std::error_code& error) { return work.attempt(error); }
        template <class Home, class Handler>
        void call(Home& home, Handler& handler, std::error_code error) {
            if (!error) made->assign(work.accepted, error);
            if (!error) work.accepted = -1;
            home(handler, error, std::move(*made));
        }
        verge::detail::accept_work work;
        Executor ex;
        std::optional<socket_type> made;
    };
};

}  // namespace ip

namespace detail {

/// Writes, or reads, until the buffer is through.
template <bool Writes, class Stream, class Buffer, class Handler>
struct transfer_all {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }

    Stream* stream;
    Buffer left;
    Handler handler;
    std::size_t done = 0;

    void start() {
        Stream& s = *stream;
        const Buffer rest = left;
        if constexpr (Writes) {
            s.async_write_some(rest, std::move(*this));
        } else {
            s.async_read_some(rest, std::move(*this));
        }
    }
    void operator()(std::error_code error, std::size_t bytes) {
        done += bytes;
        left += bytes;
        if (error || left.size() == 0) {
            std::move(handler)(error, done);
        } else {
            start();
        }
    }
};

/// What is left of a sequence: the buffers themselves, in a vector, of which the first may be
/// begun.
template <class Buffer>
class buffers_left {
public:
    template <class Sequence>
    explicit buffers_left(const Sequence& s)
        : all_(buffer_sequence_begin(s), buffer_sequence_end(s)) {
        skip_empty();
    }
    [[nodiscard]] auto begin() const noexcept { return all_.begin() + first_; }
    [[nodiscard]] auto end() const noexcept { return all_.end(); }
    [[nodiscard]] std::size_t size() const noexcept { return all_.size() - index(); }
    buffers_left& operator+=(std::size_t bytes) noexcept {
        while (bytes > 0 && size() > 0) {
            const std::size_t n = std::min(bytes, all_[index()].size());
            all_[index()] += n;
            bytes -= n;
            skip_empty();
        }
        return *this;
    }

private:
    [[nodiscard]] std::size_t index() const noexcept { return static_cast<std::size_t>(first_); }
    void skip_empty() noexcept {
        while (size() > 0 && all_[index()].size() == 0)
            ++first_;
    }
    std::vector<Buffer> all_;
    std::ptrdiff_t first_ = 0;
};

template <bool Writes, class Stream, class Buffer>
struct initiate_transfer {
    using executor_type = typename Stream::executor_type;
    [[nodiscard]] executor_type get_executor() const noexcept { return stream->get_executor(); }
    template <class Handler>
    void operator()(Handler&& handler) const {
        transfer_all<Writes, Stream, Buffer, std::decay_t<Handler>>{stream, data,
                                                                    std::forward<Handler>(handler)}
            .start();
    }
    Stream* stream;
    Buffer data;
};

}  // namespace detail

/// Writes the whole buffer, or all of a sequence: void(error_code, size_t).
template <class Stream, class Token = deferred_t>
auto async_write(Stream& stream, const const_buffer& from, Token&& token = Token()) {
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::initiate_transfer<true, Stream, const_buffer>{&stream, from}, token);
}
template <class Stream, const_buffer_sequence Sequence, class Token = deferred_t>
requires(!std::is_convertible_v<const Sequence&, const_buffer>) auto async_write(
    Stream& stream, const Sequence& from, Token&& token = Token()) {
    using left = detail::buffers_left<const_buffer>;
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::initiate_transfer<true, Stream, left>{&stream, left(from)}, token);
}
template <class Stream, mutable_buffer_sequence Sequence, class Token = deferred_t>
requires(!std::is_convertible_v<const Sequence&, mutable_buffer>) auto async_read(
    Stream& stream, const Sequence& to, Token&& token = Token()) {
    using left = detail::buffers_left<mutable_buffer>;
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::initiate_transfer<false, Stream, left>{&stream, left(to)}, token);
}
/// Reads until the buffer is full: void(error_code, size_t).
template <class Stream, class Token = deferred_t>
auto async_read(Stream& stream, const mutable_buffer& to, Token&& token = Token()) {
    return async_initiate<Token, void(std::error_code, std::size_t)>(
        detail::initiate_transfer<false, Stream, mutable_buffer>{&stream, to}, token);
}

}  // namespace verge
