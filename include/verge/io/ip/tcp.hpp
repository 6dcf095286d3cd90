// verge/io/ip/tcp.hpp -- TCP: sockets that connect, read and write, and acceptors.
//
//     verge::ip::tcp::acceptor acceptor(io, {verge::ip::tcp::v4(), 8080});   // open, bind, listen
//     acceptor.async_accept([](std::error_code error, verge::ip::tcp::socket socket) { ... });
//
//     verge::ip::tcp::socket socket(io);
//     socket.async_connect({verge::ip::make_address("127.0.0.1"), 8080}, handler);
//     socket.set_option(verge::ip::tcp::no_delay(true));          // verge/io/socket_base.hpp
//     socket.async_read_some(verge::buffer(data), handler);
//     verge::async_write(socket, verge::buffer(text), handler);   // all of it: transfer.hpp
//
// A whole server: examples/echo_server.cpp.
//
// Reads, writes, cancellation, close and release are those of all descriptors:
// verge/io/posix/descriptor.hpp.  Enough for an HTTP service or an echo server.  Not a resolver: it
// takes addresses, not names.  Neither UDP nor TLS.
//
// Accepting in a loop.  Each session owns its socket, and each pending operation of the session
// holds a shared_ptr to it, so it ends with its last operation:
//
//     void accept() {
//         acceptor.async_accept([this](std::error_code error, tcp::socket socket) {
//             if (!error) std::make_shared<session>(std::move(socket))->read();
//             if (error != verge::error::operation_aborted) accept();
//         });
//     }
//
// Ending a connection in order: shutdown(shutdown_send), read until error::eof, close().  close()
// alone discards what the peer has sent and was not read, and the kernel answers with a reset.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/descriptor_test.cpp)
//   ConnectsAndAccepts      EchoesManyConnections      EchoesTenThousandConnections
//   ARefusedConnectionSaysSo
//   AResetIsAnError         AHalfClosedPeerIsEof       AcceptSaysThatDescriptorsRanOut
//   WithTimeoutEndsAnIdleRead
// and (tests/unit/io/socket_test.cpp)
//   OpensBindsAndListens    AcceptsIntoAGivenSocket    AcceptsForAGivenExecutor    AcceptsAndBlocks
//
// Thread safety: one object, one thread at a time; different objects are independent.  A read and a
// write may be pending at the same time.  A write to a connection that the peer has closed
// completes with an error (broken_pipe, connection_reset) and raises no SIGPIPE.
//
// Exceptions: functions without an error_code parameter throw std::system_error that names the
// call.  The async functions throw std::bad_alloc, and what the handler's move throws; then nothing
// was begun.

#pragma once

#include <verge/io/ip/tcp_endpoint.hpp>
#include <verge/io/posix/descriptor.hpp>
#include <verge/io/socket_base.hpp>
#include <verge/io/transfer.hpp>

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// Owns the accepted connection until a socket takes it: the operation may be destroyed before
/// that.
class accept_work : public fd_work {
public:
    static constexpr const char* name = "async_accept";
    accept_work() noexcept = default;
    accept_work(const accept_work& other) noexcept : fd_work(other) {}  // before it is launched
    accept_work(accept_work&& other) noexcept
        : fd_work(other), accepted_(std::exchange(other.accepted_, -1)) {}
    accept_work& operator=(const accept_work&) = delete;
    accept_work& operator=(accept_work&&) = delete;
    ~accept_work();

    bool attempt(std::error_code& error);
    /// Moves the connection to a socket that is not open.
    template <class Socket>
    void give_to(Socket& socket, std::error_code& error) {
        if (error) return;
        socket.assign(accepted_, error);
        if (!error) accepted_ = -1;
    }

private:
    int accepted_ = -1;
};
/// A connect: begun by connect(2), and completed when the socket is writable.
struct connect_work {
    static constexpr const char* name = "async_connect";
    explicit connect_work(const ip::tcp_endpoint& remote) noexcept : to(remote) {}
    /// Opens the handle, if it is not open, and calls connect(2).
    std::error_code begin(io_handle& handle) noexcept;
    bool attempt(std::error_code& error);
    template <class Home, class Handler>
    void call(Home& home, Handler& handler, std::error_code error) const {
        home(handler, error);
    }
    ip::tcp_endpoint to;
    int fd = -1;
    bool pending = false;  // connect(2) has not finished
};

// The system calls, with errno as an error_code.
[[nodiscard]] std::error_code open_socket(io_handle& handle, const ip::tcp& protocol) noexcept;
[[nodiscard]] std::error_code bind_socket(int fd, const ip::tcp_endpoint& at) noexcept;
[[nodiscard]] std::error_code listen_at(int fd, int backlog) noexcept;
[[nodiscard]] std::error_code endpoint_of(int fd, bool remote, ip::tcp_endpoint& to) noexcept;
[[nodiscard]] std::error_code shut_down(int fd, int how) noexcept;
[[nodiscard]] ip::tcp protocol_of(int fd) noexcept;
[[nodiscard]] std::error_code set_socket_option(int fd, int level, int name, const void* data,
                                                std::size_t size) noexcept;
[[nodiscard]] std::error_code socket_option_of(int fd, int level, int name, void* data,
                                               std::size_t& size) noexcept;

/// What sockets and acceptors have in common, besides what all descriptors have.
template <class Executor>
class basic_tcp_object : public basic_io_object<Executor, socket_kind> {
    using base = basic_io_object<Executor, socket_kind>;

public:
    using protocol_type = ip::tcp;
    using endpoint_type = ip::tcp_endpoint;

    explicit basic_tcp_object(const Executor& ex) : base(ex) {}
    template <class Other>
    explicit basic_tcp_object(basic_tcp_object<Other>&& other) : base(std::move(other)) {}

    /// Makes the socket: non-blocking, closed on exec.  error::already_open if there is one.
    void open(const ip::tcp& protocol) {
        base::check(open_socket(base::handle(), protocol), "open");
    }
    /// The same, with the error in `error`.
    void open(const ip::tcp& protocol, std::error_code& error) {
        error = open_socket(base::handle(), protocol);
    }
    /// Binds it to a local address.  Needs open().
    void bind(const ip::tcp_endpoint& at) {
        base::check(bind_socket(base::native_handle(), at), "bind");
    }
    /// The same, with the error in `error`.
    void bind(const ip::tcp_endpoint& at, std::error_code& error) {
        error = bind_socket(base::native_handle(), at);
    }

    /// setsockopt(2) with an option of socket_base, of tcp, or of your own.  Needs open().
    template <class Option>
    void set_option(const Option& option) {
        std::error_code error;
        set_option(option, error);
        base::check(error, "set_option");
    }
    /// The same, with the error in `error`.
    template <class Option>
    void set_option(const Option& option, std::error_code& error) {
        const ip::tcp p = protocol_of(base::native_handle());
        error = set_socket_option(base::native_handle(), option.level(p), option.name(p),
                                  option.data(p), option.size(p));
    }
    /// getsockopt(2): stores the value in `option`.  Throws also what option.resize() throws.
    template <class Option>
    void get_option(Option& option) const {
        std::error_code error;
        get_option(option, error);
        base::check(error, "get_option");
    }
    /// The same, with the error in `error`; option.resize() may still throw.
    template <class Option>
    void get_option(Option& option, std::error_code& error) const {
        const ip::tcp p = protocol_of(base::native_handle());
        std::size_t size = option.size(p);
        error = socket_option_of(base::native_handle(), option.level(p), option.name(p),
                                 option.data(p), size);
        if (!error) option.resize(p, size);
    }

    /// The address that it is bound to, with the port that the system chose.
    [[nodiscard]] ip::tcp_endpoint local_endpoint() const {
        ip::tcp_endpoint at;
        base::check(endpoint_of(base::native_handle(), false, at), "getsockname");
        return at;
    }
    /// The same, with the error in `error`: then the result is 0.0.0.0:0.
    [[nodiscard]] ip::tcp_endpoint local_endpoint(std::error_code& error) const {
        ip::tcp_endpoint at;
        error = endpoint_of(base::native_handle(), false, at);
        return error ? ip::tcp_endpoint() : at;
    }
};

}  // namespace detail::io

namespace ip {

/// One side of a TCP connection.  Its destructor closes it; pending operations complete with
/// operation_aborted.  tcp::socket is this with any_io_executor.
template <class Executor>
class tcp::basic_socket : public verge::detail::io::basic_tcp_object<Executor> {
    using base = verge::detail::io::basic_tcp_object<Executor>;

public:
    using typename socket_base::shutdown_type;

    /// The same socket with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_socket<Other>;
    };

    /// A socket on an executor, or on the executor of a context; closed, or open for a protocol.
    explicit basic_socket(const Executor& ex) : base(ex) {}
    /// The same, and open() it.
    basic_socket(const Executor& ex, const tcp& protocol) : base(ex) { base::open(protocol); }
    template <verge::detail::io::context_with_executor Context>
    explicit basic_socket(Context& context) : base(context.get_executor()) {}
    template <verge::detail::io::context_with_executor Context>
    basic_socket(Context& context, const tcp& protocol) : base(context.get_executor()) {
        base::open(protocol);
    }
    /// Takes over a socket with another executor type, with its pending operations.
    template <class Other>  // NOLINTNEXTLINE: not explicit, as Asio's
    requires std::is_convertible_v<const Other&, Executor> basic_socket(basic_socket<Other>&& other)
        : base(std::move(other)) {}

    /// Connects to `to`: void(error_code).  Opens the socket if it is not open.  After an error the
    /// socket stays open; close it before the next attempt.
    template <class Token = default_completion_token_t<Executor>>
    auto async_connect(const tcp_endpoint& to, Token&& token = Token()) {
        return base::template begin<void(std::error_code)>(
            fd_event::write, verge::detail::io::connect_work(to), std::forward<Token>(token));
    }
    /// The same, blocking the calling thread.
    void connect(const tcp_endpoint& to, std::error_code& error) {
        verge::detail::io::connect_work work(to);
        error = work.begin(base::handle());
        while (!error && !work.attempt(error))
            verge::detail::io::wait_ready(base::native_handle(), fd_event::write);
    }
    /// The same.  Throws std::system_error.
    void connect(const tcp_endpoint& to) {
        std::error_code error;
        connect(to, error);
        base::check(error, "connect");
    }

    /// shutdown(2): ends one direction of the connection, or both.  After shutdown_send the peer
    /// reads error::eof.  The socket stays open.
    void shutdown(shutdown_type what, std::error_code& error) {
        error = verge::detail::io::shut_down(base::native_handle(), static_cast<int>(what));
    }
    /// The same.  Throws std::system_error.
    void shutdown(shutdown_type what) {
        base::check(verge::detail::io::shut_down(base::native_handle(), static_cast<int>(what)),
                    "shutdown");
    }
    /// Sets the option tcp::no_delay.  Throws std::system_error.
    void no_delay(bool on) { base::set_option(tcp::no_delay(on)); }
    /// The address of the peer.  error::not_connected if there is none.
    [[nodiscard]] tcp_endpoint remote_endpoint() const {
        tcp_endpoint at;
        base::check(verge::detail::io::endpoint_of(base::native_handle(), true, at), "getpeername");
        return at;
    }
    /// The same, with the error in `error`: then the result is 0.0.0.0:0.
    [[nodiscard]] tcp_endpoint remote_endpoint(std::error_code& error) const {
        tcp_endpoint at;
        error = verge::detail::io::endpoint_of(base::native_handle(), true, at);
        return error ? tcp_endpoint() : at;
    }
};

/// Listens for connections.  Its destructor closes it; pending accepts complete with
/// operation_aborted.  tcp::acceptor is this with any_io_executor.
template <class Executor>
class tcp::basic_acceptor : public verge::detail::io::basic_tcp_object<Executor> {
    using base = verge::detail::io::basic_tcp_object<Executor>;
    using socket_type = basic_socket<Executor>;
    // A token, and neither an executor nor a context.
    template <class T>
    static constexpr bool is_token =
        !execution::executor<std::decay_t<T>> &&
        !verge::detail::io::context_with_executor<std::remove_cvref_t<T>>;

public:
    /// The same acceptor with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_acceptor<Other>;
    };

    /// An acceptor that is not open: call open, bind and listen.
    explicit basic_acceptor(const Executor& ex) : base(ex) {}
    /// The same, and open() it.
    basic_acceptor(const Executor& ex, const tcp& protocol) : base(ex) { base::open(protocol); }
    /// Opens, binds and listens; `reuse` sets SO_REUSEADDR before the bind.  Port 0: the system
    /// chooses one, see local_endpoint().
    basic_acceptor(const Executor& ex, const tcp_endpoint& at, bool reuse = true,
                   int backlog = socket_base::max_listen_connections)
        : base(ex) {
        base::open(at.protocol());
        if (reuse) base::set_option(socket_base::reuse_address(true));
        base::bind(at);
        listen(backlog);
    }
    template <verge::detail::io::context_with_executor Context>
    explicit basic_acceptor(Context& context) : base(context.get_executor()) {}
    template <verge::detail::io::context_with_executor Context>
    basic_acceptor(Context& context, const tcp& protocol)
        : basic_acceptor(Executor(context.get_executor()), protocol) {}
    template <verge::detail::io::context_with_executor Context>
    basic_acceptor(Context& context, const tcp_endpoint& at, bool reuse = true)
        : basic_acceptor(Executor(context.get_executor()), at, reuse) {}
    /// Takes over an acceptor with another executor type, with its pending operations.
    template <class Other>  // NOLINTNEXTLINE: not explicit, as Asio's
    requires std::is_convertible_v<const Other&, Executor> basic_acceptor(
        basic_acceptor<Other>&& other)
        : base(std::move(other)) {}

    /// Starts to listen.  `backlog` connections may wait to be accepted.  Needs bind().
    void listen(int backlog = socket_base::max_listen_connections) {
        base::check(verge::detail::io::listen_at(base::native_handle(), backlog), "listen");
    }
    /// The same, with the error in `error`.
    void listen(int backlog, std::error_code& error) {
        error = verge::detail::io::listen_at(base::native_handle(), backlog);
    }

    /// Accepts the next connection: void(error_code, socket).  The socket has the acceptor's
    /// executor.  After an error such as no_descriptors the connection still waits, and a later
    /// accept gets it; after no_memory it is closed.  Connections that were aborted in the meantime
    /// are skipped.
    template <class Token = default_completion_token_t<Executor>>
    requires(is_token<Token>) auto async_accept(Token&& token = Token()) {
        return accept_for(base::get_executor(), std::forward<Token>(token));
    }
    /// The same, for a socket with another executor, or with that of a context.
    template <execution::executor Other, class Token = default_completion_token_t<Executor>>
    auto async_accept(const Other& ex, Token&& token = Token()) {
        return accept_for(ex, std::forward<Token>(token));
    }
    /// The same, for a socket on the executor of a context.
    template <verge::detail::io::context_with_executor Context,
              class Token = default_completion_token_t<Executor>>
    auto async_accept(Context& context, Token&& token = Token()) {
        return accept_for(context.get_executor(), std::forward<Token>(token));
    }
    /// The same, into `peer`: void(error_code).  `peer` must not be open, and must outlive the
    /// operation; error::already_open if it is open.
    template <class Other, class Token = default_completion_token_t<Executor>>
    auto async_accept(basic_socket<Other>& peer, Token&& token = Token()) {
        return base::template begin<void(std::error_code)>(
            fd_event::read, accept_into<basic_socket<Other>>(peer), std::forward<Token>(token));
    }

    /// The same, blocking the calling thread: into `peer`, or as a new socket.
    template <class Other>
    void accept(basic_socket<Other>& peer, std::error_code& error) {
        error = peer.is_open() ? std::error_code(error::already_open) : std::error_code();
        if (error) return;
        verge::detail::io::accept_work work;
        error = work.begin(base::handle());
        while (!error && !work.attempt(error))
            verge::detail::io::wait_ready(base::native_handle(), fd_event::read);
        work.give_to(peer, error);
    }
    /// The same.  Throws std::system_error.
    template <class Other>
    void accept(basic_socket<Other>& peer) {
        std::error_code error;
        accept(peer, error);
        base::check(error, "accept");
    }
    /// The same, as a new socket, which is not open after an error.
    [[nodiscard]] socket_type accept(std::error_code& error) {
        socket_type peer(base::get_executor());
        accept(peer, error);
        return peer;
    }
    /// The same.  Throws std::system_error.
    [[nodiscard]] socket_type accept() {
        socket_type peer(base::get_executor());
        accept(peer);
        return peer;
    }

private:
    template <class Other, class Token>
    auto accept_for(const Other& ex, Token&& token) {
        return base::template begin<void(std::error_code, basic_socket<Other>)>(
            fd_event::read, accept_socket<Other>(ex), std::forward<Token>(token));
    }

    // An accept that makes a socket for the connection.
    template <class Other>
    struct accept_socket : verge::detail::io::accept_work {
        explicit accept_socket(const Other& with) : ex(with) {}
        accept_socket(const accept_socket& other) : accept_work(other), ex(other.ex) {}
        accept_socket(accept_socket&& other) noexcept = default;
        accept_socket& operator=(const accept_socket&) = delete;
        accept_socket& operator=(accept_socket&&) = delete;
        ~accept_socket() = default;
        // Before the operation begins, because it may throw; the handler gets a socket in any case.
        void prepare() { made.emplace(ex); }
        template <class Home, class Handler>
        void call(Home& home, Handler& handler, std::error_code error) {
            give_to(*made, error);
            home(handler, error, std::move(*made));
        }
        Other ex;
        std::optional<basic_socket<Other>> made;
    };
    // An accept into a socket of the caller.
    template <class Socket>
    struct accept_into : verge::detail::io::accept_work {
        explicit accept_into(Socket& socket) noexcept : peer(&socket) {}
        std::error_code begin(const verge::detail::io::io_handle& handle) noexcept {
            if (peer->is_open()) return error::already_open;
            return accept_work::begin(handle);
        }
        template <class Home, class Handler>
        void call(Home& home, Handler& handler, std::error_code error) {
            give_to(*peer, error);
            home(handler, error);
        }
        Socket* peer;
    };
};

}  // namespace ip

}  // namespace verge
