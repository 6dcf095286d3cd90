// What strangers send to `verge serve`: any bytes, in any pieces, through session and service.
//
// The first two bytes say how the rest is cut.  What must hold: no crash and no sanitizer report;
// every output is a valid response, as Beast's own parser reads it; the buffer stays within its
// limit; nothing comes after the end; and what is answered does not depend on how the bytes were
// cut, as long as all of it is good.

#include "http_session.hpp"
#include "unit/observe/prometheus_parser.hpp"
#include "unit/serve/fake_backend.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace {

namespace http = boost::beast::http;
using verge::tool::http_output;
using verge::tool::http_session;

void require(bool holds, const char* what) {
    if (holds) return;
    fmt::print(stderr, "http_fuzz: {}\n", what);
    std::abort();
}

unsigned checked_status(const http_output& out, bool head_possible) {
    if (out.bytes == "HTTP/1.1 100 Continue\r\n\r\n") return 100;
    http::response_parser<http::string_body> parser;
    parser.eager(true);
    boost::system::error_code error;
    const std::size_t used =
        parser.put(boost::asio::buffer(out.bytes.data(), out.bytes.size()), error);
    require(!error || error == http::error::need_more, "a response is malformed");
    require(parser.is_header_done(), "a response has no whole header");
    require(used == out.bytes.size(), "a response has more of a body than it says");
    if (out.then != http_output::after::events && !parser.is_done()) {
        require(head_possible, "a response has less of a body than it says");
    }
    if (parser.is_done() && parser.get().body().starts_with("# HELP")) {
        static_cast<void>(verge::test::parsed_prometheus(parser.get().body()));
    }
    return parser.get().result_int();
}

// The statuses of all responses; cut by a little generator, or where the buffer ends if it is 0.
std::vector<unsigned> statuses(std::string_view bytes, std::uint32_t cut) {
    verge::tool::test::fake_service fake;
    http_session session(fake.service);
    const bool head_possible = bytes.find("HEAD") != bytes.npos;
    std::vector<unsigned> list;
    while (!bytes.empty()) {
        std::size_t size = session.room();
        require(size > 0 && size <= http_session::input_limit, "no room is left");
        if (cut != 0) {
            cut = cut * 1664525 + 1013904223;
            size = std::min<std::size_t>(size, 1 + (cut >> 16) % ((cut & 0x100) != 0 ? 8 : 300));
        }
        size = std::min(size, bytes.size());
        session.receive(bytes.substr(0, size));
        bytes.remove_prefix(size);
        while (const auto out = session.next()) {
            list.push_back(checked_status(*out, head_possible));
            if (out->then == http_output::after::more) continue;
            require(!session.next(), "it goes on after its end");
            return list;
        }
    }
    const http_output late = session.time_out();
    require(late.bytes.empty() || checked_status(late, false) == 408, "a late one is not told so");
    require(!session.next(), "it goes on after its time");
    return list;
}

// Whether both are the same as far as they go on.  A request that is refused may be so for another
// reason, or sooner, if it comes in pieces; and 100 is sent only if the body has not come already.
bool agree(std::vector<unsigned> a, std::vector<unsigned> b) {
    const auto ends_it = [](unsigned s) { return s == 400 || s > 405; };
    std::erase(a, 100U);
    std::erase(b, 100U);
    const std::size_t common = std::min(a.size(), b.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (ends_it(a[i]) || ends_it(b[i])) return a[i] >= 400 && b[i] >= 400;
        if (a[i] != b[i]) return false;
    }
    const std::vector<unsigned>& longer = a.size() > b.size() ? a : b;
    return longer.size() == common || ends_it(longer[common]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::uint32_t cut = 1 + data[0] + 256U * data[1];
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
    const std::vector<unsigned> whole = statuses(bytes, 0);
    const std::vector<unsigned> in_pieces = statuses(bytes, cut);
    if (agree(whole, in_pieces)) return 0;
    fmt::print(stderr, "whole: {}; in pieces: {}\n", fmt::join(whole, " "),
               fmt::join(in_pieces, " "));
    require(false, "the cut makes a difference");
    return 0;
}
