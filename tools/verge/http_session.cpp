// tools/verge/http_session.cpp -- HTTP/1.1 of one connection, from bytes to bytes.

#include "http_session.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/serializer.hpp>
#include <fmt/format.h>

namespace verge::tool {

namespace {

namespace http = boost::beast::http;
namespace net = boost::asio;  // its buffers only
using http::field;

std::string date_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 40> text{};
    return {text.data(),
            std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

// The bytes of a message.  An answer to HEAD is its header alone, with the body's size.
std::string serialized(http_response& message, bool head) {
    std::string bytes;
    http::response_serializer<http::string_body> serializer(message);
    serializer.split(true);
    while (!serializer.is_done() && !(head && serializer.is_header_done())) {
        boost::system::error_code error;
        serializer.next(error, [&](boost::system::error_code&, const auto& buffers) {
            std::size_t size = 0;
            for (auto at = net::buffer_sequence_begin(buffers);
                 at != net::buffer_sequence_end(buffers); ++at) {
                const net::const_buffer piece = *at;
                bytes.append(static_cast<const char*>(piece.data()), piece.size());
                size += piece.size();
            }
            serializer.consume(size);
        });
        if (error) throw boost::system::system_error(error, "HTTP serializer");
    }
    return bytes;
}

// "GET / HTTP/2.0" is HTTP that we do not speak, "GET / FTP" is nonsense.
bool names_another_version(std::string_view input) {
    const std::string_view line = input.substr(0, input.find_first_of("\r\n"));
    const std::size_t last = line.rfind(' ');
    if (last == line.npos) return false;
    const std::string_view version = line.substr(last + 1);
    const auto digit = [&](std::size_t i) { return version[i] >= '0' && version[i] <= '9'; };
    return version.size() == 8 && version.starts_with("HTTP/") && digit(5) && version[6] == '.' &&
           digit(7) && version != "HTTP/1.1" && version != "HTTP/1.0";
}

}  // namespace

std::string closing_response(http_status status, std::string_view text) {
    http_response message = http_service::plain(status, text);
    message.set(field::date, date_now());
    message.keep_alive(false);
    message.prepare_payload();
    return serialized(message, false);
}

http_output http_session::respond(http_response message, unsigned version, bool keep_alive,
                                  bool head) {
    ++requests_;
    if (message.result_int() >= 400) ++refused_;
    message.version(version);
    message.set(field::date, date_now());
    message.keep_alive(keep_alive);
    message.prepare_payload();
    ended_ = !keep_alive;
    return {serialized(message, head),
            keep_alive ? http_output::after::more : http_output::after::close};
}

http_output http_session::refuse(http_status status, std::string_view text) {
    input_.clear();
    input_.shrink_to_fit();
    return respond(http_service::plain(status, text), 11, false, false);
}

http_output http_session::time_out() {
    if (ended_ || is_idle()) {
        ended_ = true;
        return {"", http_output::after::close};
    }
    return refuse(http_status::request_timeout, "408: the request took too long");
}

std::optional<http_output> http_session::next() {
    if (ended_) return std::nullopt;
    if (!begun_) {
        // Empty lines before a request are skipped, as RFC 9112 requires.
        input_.erase(0, std::min(input_.find_first_not_of("\r\n"), input_.size()));
        if (input_.empty()) return std::nullopt;
        begun_ = true;
        continued_ = false;
        taken_ = 0;
        parser_.emplace();
        parser_->header_limit(header_limit);
        parser_->body_limit(body_limit);
    }
    return parse();
}

std::optional<http_output> http_session::parse() {
    boost::system::error_code error;
    std::size_t used = 0;
    // The header in one step, then the pieces of the body: so its size is known.
    while (!error && !parser_->is_done() && used < input_.size()) {
        const bool header = !parser_->is_header_done();
        const std::size_t more =
            parser_->put(net::buffer(input_.data() + used, input_.size() - used), error);
        used += more;
        taken_ += more;
        if (header && taken_ > header_limit) error = http::error::header_limit;
    }
    if (error && error != http::error::need_more) return refuse_for(error);
    input_.erase(0, used);
    if (!parser_->is_done()) {
        const bool header = !parser_->is_header_done();
        // The parser limits the data of a body, and this what it is wrapped into.
        if (room() == 0 || taken_ > header_limit + 2 * body_limit) {
            return refuse_for(header ? http::error::header_limit : http::error::body_limit);
        }
        if (header || continued_) return std::nullopt;
        continued_ = true;
        const auto expect = parser_->get().find(field::expect);
        if (expect == parser_->get().end()) return std::nullopt;
        if (!boost::beast::iequals(expect->value(), "100-continue")) {
            return refuse(http_status::expectation_failed, "417: what is expected?");
        }
        if (parser_->get().version() < 11 || !input_.empty()) return std::nullopt;
        return http_output{"HTTP/1.1 100 Continue\r\n\r\n"};
    }
    return answer();
}

http_output http_session::refuse_for(boost::system::error_code error) {
    if (error == http::error::header_limit) {
        return refuse(http_status::request_header_fields_too_large, "431: the header is too long");
    }
    if (error == http::error::body_limit) {
        return refuse(http_status::payload_too_large, "413: the body is too long");
    }
    if (error == http::error::bad_version && names_another_version(input_)) {
        return refuse(http_status::http_version_not_supported,
                      "505: this speaks HTTP/1.1 and HTTP/1.0");
    }
    return refuse(http_status::bad_request, fmt::format("400: {}", error.message()));
}

http_output http_session::answer() {
    const http_request request = parser_->release();
    parser_.reset();
    begun_ = false;
    // Its body has an end that we do not know.
    if (request.count(field::transfer_encoding) != 0 && !request.chunked()) {
        return refuse(http_status::bad_request, "400: the only transfer encoding here is chunked");
    }
    const bool head = request.method() == http::verb::head;
    http_answer given = service_.answer(request);
    if (given.events && !head) {
        ++requests_;
        ended_ = true;
        // Without a length: it ends with the connection.
        given.message.version(request.version());
        given.message.set(field::date, date_now());
        given.message.keep_alive(false);
        return {serialized(given.message, true), http_output::after::events};
    }
    return respond(std::move(given.message), request.version(), request.keep_alive() && !closing_,
                   head);
}

}  // namespace verge::tool
