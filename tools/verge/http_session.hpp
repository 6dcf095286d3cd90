// tools/verge/http_session.hpp -- HTTP/1.1 of one connection: bytes in, bytes out, no socket.
//
//     session.receive(bytes);                          // at most room() of them
//     while (auto out = session.next()) write(*out);   // one response at a time
//     ...                                              // nullopt: it needs more bytes
//
// Requests may come in any pieces, and several at once: they are answered one after the other, in
// order, and what has come of later ones waits in a buffer of fixed size.  After a response that
// ends the connection nothing more is read.
//
// Thread safety: none.

#pragma once

#include "http_service.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/beast/http/parser.hpp>

namespace verge::tool {

struct http_output {
    enum class after {
        more,    // the connection stays
        close,   // it is the last
        events,  // events follow it
    };
    std::string bytes;
    after then = after::more;
};

class http_session {
public:
    static constexpr std::size_t header_limit = 8 * 1024;
    static constexpr std::size_t body_limit = 4 * 1024;
    static constexpr std::size_t input_limit = 16 * 1024;

    explicit http_session(http_service& service) : service_(service) {}

    /// How many bytes it takes now.
    [[nodiscard]] std::size_t room() const noexcept { return input_limit - input_.size(); }
    void receive(std::string_view bytes) { input_.append(bytes); }

    /// What to send; nothing if more input is needed first.
    [[nodiscard]] std::optional<http_output> next();

    /// The response to a client that is too slow: 408 if it has begun a request, else nothing.
    [[nodiscard]] http_output time_out();

    /// Between two requests, or before the first: nothing has come of the next one.
    [[nodiscard]] bool is_idle() const noexcept { return !begun_ && input_.empty(); }
    /// The next response is the last one, whatever the client asks for.
    void close_soon() noexcept { closing_ = true; }

    [[nodiscard]] std::uint64_t requests() const noexcept { return requests_; }
    [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

private:
    using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

    std::optional<http_output> parse();
    http_output answer();
    http_output refuse_for(boost::system::error_code error);
    http_output respond(http_response message, unsigned version, bool keep_alive, bool head);
    http_output refuse(http_status status, std::string_view text);

    http_service& service_;
    std::string input_;
    std::optional<parser> parser_;  // of the request that is being read
    std::size_t taken_ = 0;         // bytes of it that the parser has taken
    bool begun_ = false;            // some of them have come
    bool continued_ = false;        // "100 Continue" was sent, or is not needed
    bool closing_ = false;
    bool ended_ = false;
    std::uint64_t requests_ = 0;
    std::uint64_t refused_ = 0;
};

/// The whole of an error response that ends a connection.
[[nodiscard]] std::string closing_response(http_status status, std::string_view text);

}  // namespace verge::tool
