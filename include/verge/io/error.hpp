// verge/io/error.hpp -- the errors that asynchronous operations complete with.
//
//     if (error == verge::error::operation_aborted) ...     // it was cancelled
//     if (error == verge::error::timed_out) ...             // by with_timeout()
//
// Names and values are Asio's: basic_errors are errno's values in std::system_category(), so that
// they compare equal to what system calls report and to std::errc; misc_errors are the library's
// own.
//
// They also compare with the standard's conditions: error == std::errc::operation_canceled is true
// for operation_aborted.  A misc_error equals no condition.
//
// Not every value is produced by the library: most of them are what a system call may return.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   CodesAreThoseOfTheSystem
//
// Thread safety: all functions from any thread.
// Exceptions: none, except std::bad_alloc of message().

#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace verge {

/// Asio's names for the standard types.
using std::error_code;
using std::system_error;

namespace error {

/// Errors of the system.  The library itself produces these:
///   operation_aborted   the operation was cancelled, or its object was closed or destroyed.
///   timed_out           with_timeout() reached its limit; the kernel reports it, too.
///   bad_descriptor      the descriptor, or the socket, is not open.
///   invalid_argument    not an address, or not a signal number; other flags for a signal in use.
///   no_memory           memory was refused when a descriptor was registered.
enum basic_errors {
    access_denied = EACCES,
    address_family_not_supported = EAFNOSUPPORT,
    address_in_use = EADDRINUSE,
    already_connected = EISCONN,
    already_started = EALREADY,
    bad_descriptor = EBADF,
    broken_pipe = EPIPE,
    connection_aborted = ECONNABORTED,
    connection_refused = ECONNREFUSED,
    connection_reset = ECONNRESET,
    fault = EFAULT,
    host_unreachable = EHOSTUNREACH,
    in_progress = EINPROGRESS,
    interrupted = EINTR,
    invalid_argument = EINVAL,
    message_size = EMSGSIZE,
    name_too_long = ENAMETOOLONG,
    network_down = ENETDOWN,
    network_reset = ENETRESET,
    network_unreachable = ENETUNREACH,
    no_buffer_space = ENOBUFS,
    no_descriptors = EMFILE,
    no_memory = ENOMEM,
    no_permission = EPERM,
    no_protocol_option = ENOPROTOOPT,
    no_such_device = ENODEV,
    not_connected = ENOTCONN,
    not_socket = ENOTSOCK,
    operation_aborted = ECANCELED,
    operation_not_supported = EOPNOTSUPP,
    shut_down = ESHUTDOWN,
    timed_out = ETIMEDOUT,
    try_again = EAGAIN,
    would_block = EWOULDBLOCK,
};

/// Errors that errno has no value for.
enum misc_errors {
    already_open = 1,  ///< open(), assign() or accept() into an object that is open.
    eof = 2,           ///< The peer has ended the stream: no more bytes will come.
    not_found = 3,     ///< No such element.
};

/// An error code in std::system_category().  Found by the conversion of the enum.
inline std::error_code make_error_code(basic_errors e) noexcept {
    return {static_cast<int>(e), std::system_category()};
}

/// The category of misc_errors: "verge.misc".
inline const std::error_category& misc_category() noexcept {
    class category final : public std::error_category {
    public:
        [[nodiscard]] const char* name() const noexcept override { return "verge.misc"; }
        [[nodiscard]] std::string message(int value) const override {
            switch (value) {
                case already_open:
                    return "Already open";
                case eof:
                    return "End of file";
                case not_found:
                    return "Element not found";
                default:
                    return "verge.misc error";
            }
        }
    };
    static const category one;
    return one;
}
/// An error code in misc_category().
inline std::error_code make_error_code(misc_errors e) noexcept {
    return {static_cast<int>(e), misc_category()};
}

}  // namespace error

}  // namespace verge

template <>
struct std::is_error_code_enum<verge::error::basic_errors> : std::true_type {};
template <>
struct std::is_error_code_enum<verge::error::misc_errors> : std::true_type {};
