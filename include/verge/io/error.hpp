// verge/io/error.hpp -- what asynchronous operations end with.
//
//     if (error == verge::error::operation_aborted) ...     // somebody cancelled it
//     if (error == verge::error::timed_out) ...             // with_timeout() did
//
// The values are those of Asio: errno's, in std::system_category(), and a few of our own.

#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace verge {

using std::error_code;
using std::system_error;

namespace error {

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

enum misc_errors {
    already_open = 1,  ///< assign() to an object that is open.
    eof = 2,           ///< The other side has ended the stream.
    not_found = 3,     ///< No such element.
};

inline std::error_code make_error_code(basic_errors e) noexcept {
    return {static_cast<int>(e), std::system_category()};
}

/// Of misc_errors.
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
inline std::error_code make_error_code(misc_errors e) noexcept {
    return {static_cast<int>(e), misc_category()};
}

}  // namespace error

}  // namespace verge

template <>
struct std::is_error_code_enum<verge::error::basic_errors> : std::true_type {};
template <>
struct std::is_error_code_enum<verge::error::misc_errors> : std::true_type {};
