// tools/verge/http_service.hpp -- what `verge serve` answers: a request in, a response out.
//
// No socket, no clock, no state but that of the backend behind it: tests and the fuzzer call it as
// the server does.  docs/design/serve.md has the access rules, and the reasons.
//
//     GET  /          the live page, with a token for /control
//     GET  /events    server-sent events: one JSON sample after the other
//     POST /control   changes the load: a form or JSON, with the page's token, from its own origin
//     GET  /metrics   Prometheus' text format
//     GET  /healthz   "ok"
//
// Thread safety: none.

#pragma once

#include "load.hpp"
#include "load_change.hpp"
#include "sample.hpp"
#include <verge/base/stats.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

namespace verge::tool {

using http_request = boost::beast::http::request<boost::beast::http::string_body>;
using http_response = boost::beast::http::response<boost::beast::http::string_body>;
using http_status = boost::beast::http::status;

/// What a server has done so far.
struct http_stats {
    std::uint64_t connections = 0;
    std::uint64_t connections_open = 0;
    std::uint64_t event_clients = 0;
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t evicted = 0;
    std::uint64_t turned_away = 0;
    std::uint64_t accept_errors = 0;
    std::uint64_t events = 0;
    std::uint64_t events_skipped = 0;

    template <class Visitor>
    void visit(Visitor&& v) const {
        using enum stat_kind;
        v("connections", counter, connections, "connections accepted");
        v("connections_open", gauge, connections_open, "connections now");
        v("event_clients", gauge, event_clients, "connections that get events now");
        v("requests", counter, requests, "requests answered, errors too");
        v("refused", counter, refused, "of these: with a status of 400 or above");
        v("timed_out", counter, timed_out, "connections ended because the client was too slow");
        v("evicted", counter, evicted, "idle connections ended to make room");
        v("turned_away", counter, turned_away, "connections answered 503 because all were busy");
        v("accept_errors", counter, accept_errors, "failures to accept, such as no descriptors");
        v("events", counter, events, "events sent");
        v("events_skipped", counter, events_skipped, "events not sent: the client reads slowly");
    }
};

/// What the service reports, and changes.
class serve_backend {
public:
    serve_backend() = default;
    virtual ~serve_backend() = default;
    serve_backend(const serve_backend&) = delete;
    serve_backend& operator=(const serve_backend&) = delete;

    [[nodiscard]] virtual const sample& latest() const = 0;
    [[nodiscard]] virtual load_options options() const = 0;
    /// May throw; the client then gets an error.
    virtual void apply(const load_change& change) = 0;
    [[nodiscard]] virtual http_stats stats() const = 0;
    /// Whether one more client may get events.
    [[nodiscard]] virtual bool room_for_events() const = 0;
};

/// A sample and the settings it was taken under, as JSON.
[[nodiscard]] std::string sample_json(const sample& now, const load_options& options);

struct http_answer {
    http_response message;
    bool events = false;  // what follows the header is events, until one side closes
};

class http_service {
public:
    struct options {
        /// The address listened on, as text; "" if all of this machine.
        std::string address = "127.0.0.1";
        /// What /control wants to see.
        std::string token;
        /// A new one for each page: its style and script carry it.
        std::function<std::string()> nonce;
    };

    http_service(serve_backend& backend, options opts)
        : backend_(backend), options_(std::move(opts)) {}

    [[nodiscard]] http_answer answer(const http_request& request);

    /// A response that describes the error in a line of text.
    [[nodiscard]] static http_response plain(http_status status, std::string_view text);

private:
    [[nodiscard]] http_response page() const;
    [[nodiscard]] http_response metrics() const;
    [[nodiscard]] http_response control(const http_request& request);
    [[nodiscard]] bool may_be_asked_as(std::string_view host) const;

    serve_backend& backend_;
    options options_;
};

/// Compares in constant time.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b) noexcept;

}  // namespace verge::tool
