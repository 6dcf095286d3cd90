// verge/io/socket_base.hpp -- names that all sockets have, and the options of sockets.
//
//     acceptor.set_option(verge::socket_base::reuse_address(true));
//     socket.set_option(verge::ip::tcp::no_delay(true));
//     verge::socket_base::receive_buffer_size size;
//     socket.get_option(size);                            // size.value(), in bytes
//
// An option is any type with level(protocol), name(protocol), data(protocol) and size(protocol),
// the arguments of setsockopt(2).  For get_option it also needs a data() that can be written to,
// and resize(protocol, size), which throws if the kernel returned another size.
//
//     struct busy_poll {                       // an option of your own: SO_BUSY_POLL
//         int value;
//         int level(const verge::ip::tcp&) const { return SOL_SOCKET; }
//         int name(const verge::ip::tcp&) const { return SO_BUSY_POLL; }
//         const int* data(const verge::ip::tcp&) const { return &value; }
//         std::size_t size(const verge::ip::tcp&) const { return sizeof value; }
//     };
//     socket.set_option(busy_poll{50});
//
// Values only: nothing here makes a system call.  Meaning and limits of the options: socket(7).
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/socket_test.cpp)
//   OptionsAreSetAndAskedFor      AUsersOptionWorks
//
// Thread safety: as an int.  Exceptions: resize throws std::length_error.

#pragma once

#include <cstddef>
#include <stdexcept>

#include <netinet/in.h>
#include <sys/socket.h>

namespace verge {

namespace detail::io {

/// An option with one value: the arguments of setsockopt(2) and getsockopt(2).
template <int Level, int Name, class Value>
class socket_option {
public:
    template <class Protocol>
    [[nodiscard]] int level(const Protocol&) const noexcept {
        return Level;
    }
    template <class Protocol>
    [[nodiscard]] int name(const Protocol&) const noexcept {
        return Name;
    }
    template <class Protocol>
    [[nodiscard]] Value* data(const Protocol&) noexcept {
        return &value_;
    }
    template <class Protocol>
    [[nodiscard]] const Value* data(const Protocol&) const noexcept {
        return &value_;
    }
    template <class Protocol>
    [[nodiscard]] std::size_t size(const Protocol&) const noexcept {
        return sizeof value_;
    }
    /// Called by get_option with the size that the kernel returned.
    template <class Protocol>
    void resize(const Protocol&, std::size_t size) {
        if (size != sizeof value_)
            throw std::length_error("verge: a socket option of another size");
    }

protected:
    constexpr explicit socket_option(Value value) noexcept : value_(value) {}
    ~socket_option() = default;
    Value value_;
};

/// An option that is on or off.
template <int Level, int Name>
class boolean_option : public socket_option<Level, Name, int> {
public:
    constexpr boolean_option() noexcept : boolean_option(false) {}
    constexpr explicit boolean_option(bool on) noexcept
        : socket_option<Level, Name, int>(on ? 1 : 0) {}
    boolean_option& operator=(bool on) noexcept {
        this->value_ = on ? 1 : 0;
        return *this;
    }
    [[nodiscard]] constexpr bool value() const noexcept { return this->value_ != 0; }
    constexpr operator bool() const noexcept { return value(); }  // NOLINT: implicit, as in Asio
    constexpr bool operator!() const noexcept { return !value(); }
};

/// An option with a number.
template <int Level, int Name>
class integer_option : public socket_option<Level, Name, int> {
public:
    constexpr integer_option() noexcept : integer_option(0) {}
    constexpr explicit integer_option(int value) noexcept
        : socket_option<Level, Name, int>(value) {}
    integer_option& operator=(int value) noexcept {
        this->value_ = value;
        return *this;
    }
    [[nodiscard]] constexpr int value() const noexcept { return this->value_; }
};

/// SO_LINGER: whether close() waits for data that has not been sent, and for how long.
class linger_option : public socket_option<SOL_SOCKET, SO_LINGER, ::linger> {
public:
    constexpr linger_option() noexcept : linger_option(false, 0) {}
    constexpr linger_option(bool on, int seconds) noexcept
        : socket_option(::linger{on ? 1 : 0, seconds}) {}
    /// Whether close() waits.
    [[nodiscard]] constexpr bool enabled() const noexcept { return value_.l_onoff != 0; }
    void enabled(bool on) noexcept { value_.l_onoff = on ? 1 : 0; }
    /// How long, in seconds.
    [[nodiscard]] constexpr int timeout() const noexcept { return value_.l_linger; }
    void timeout(int seconds) noexcept { value_.l_linger = seconds; }
};

}  // namespace detail::io

/// The base of sockets and acceptors: only names.
class socket_base {
public:
    /// What async_wait waits for.
    enum wait_type { wait_read, wait_write, wait_error };
    /// Which direction shutdown() ends; the values are those of shutdown(2).
    enum shutdown_type { shutdown_receive, shutdown_send, shutdown_both };

    /// The options of socket(7), by Asio's names.
    using broadcast = detail::io::boolean_option<SOL_SOCKET, SO_BROADCAST>;
    using debug = detail::io::boolean_option<SOL_SOCKET, SO_DEBUG>;
    using do_not_route = detail::io::boolean_option<SOL_SOCKET, SO_DONTROUTE>;
    using keep_alive = detail::io::boolean_option<SOL_SOCKET, SO_KEEPALIVE>;
    using reuse_address = detail::io::boolean_option<SOL_SOCKET, SO_REUSEADDR>;
    using out_of_band_inline = detail::io::boolean_option<SOL_SOCKET, SO_OOBINLINE>;
    /// Sizes in bytes.  The kernel doubles a buffer size that is set, and returns the doubled
    /// value.
    using send_buffer_size = detail::io::integer_option<SOL_SOCKET, SO_SNDBUF>;
    using receive_buffer_size = detail::io::integer_option<SOL_SOCKET, SO_RCVBUF>;
    using send_low_watermark = detail::io::integer_option<SOL_SOCKET, SO_SNDLOWAT>;
    using receive_low_watermark = detail::io::integer_option<SOL_SOCKET, SO_RCVLOWAT>;
    using linger = detail::io::linger_option;

    /// The default backlog of listen().
    static constexpr int max_listen_connections = SOMAXCONN;

protected:
    ~socket_base() = default;
};

namespace detail::io {

/// The Kind of sockets: see basic_io_object in verge/io/posix/descriptor.hpp.
struct socket_kind {
    static constexpr const char* name = "socket";
    using names = socket_base;
};

}  // namespace detail::io

}  // namespace verge
