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
    operation_aborted = ECANCELED,
    timed_out = ETIMEDOUT,
    bad_descriptor = EBADF,
    connection_refused = ECONNREFUSED,
    connection_reset = ECONNRESET,
    connection_aborted = ECONNABORTED,
    broken_pipe = EPIPE,
    address_in_use = EADDRINUSE,
    already_open = EISCONN,
    not_connected = ENOTCONN,
    in_progress = EINPROGRESS,
    invalid_argument = EINVAL,
    no_descriptors = EMFILE,
    try_again = EAGAIN,
    would_block = EWOULDBLOCK,
    interrupted = EINTR,
};

enum misc_errors {
    eof = 2,        ///< The other side has ended the stream.
    not_found = 3,  ///< No such element.
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
            return value == eof ? "End of file" : value == not_found ? "Not found" : "verge.misc";
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
