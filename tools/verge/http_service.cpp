// tools/verge/http_service.cpp -- routes, access rules and responses.

#include "http_service.hpp"

#include "html.hpp"
#include "json.hpp"
#include "live_page.hpp"
#include <verge/io/ip/tcp.hpp>
#include <verge/observe/prometheus.hpp>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace verge::tool {

namespace {

namespace http = boost::beast::http;
using field = http::field;

std::string_view view_of(boost::beast::string_view text) {
    return {text.data(), text.size()};
}
boost::beast::string_view beast_view(std::string_view text) {
    return {text.data(), text.size()};
}

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return result;
}

http_response made(http_status status, std::string_view type, std::string body) {
    http_response message(status, 11);
    message.set(field::content_type, beast_view(type));
    message.set("X-Content-Type-Options", "nosniff");
    message.set("Referrer-Policy", "no-referrer");
    message.set(field::cache_control, "no-store");
    message.body() = std::move(body);
    return message;
}

// Where a request goes to: the host it names, and the path without a query.
struct destination {
    std::string host;
    std::string path;
    bool valid = false;
};

destination destination_of(const http_request& request) {
    destination to;
    const auto hosts = request.equal_range(field::host);
    const auto count = std::distance(hosts.first, hosts.second);
    if (count == 1) to.host = lower(view_of(hosts.first->value()));
    if (count == 0) to.host = "localhost";  // HTTP/1.0: browsers do not use it
    to.valid = count == 1 || (count == 0 && request.version() < 11);

    std::string_view target = view_of(request.target());
    constexpr std::string_view scheme = "http://";
    if (lower(target.substr(0, scheme.size())) == scheme) {  // as to a proxy: it names the host
        target.remove_prefix(scheme.size());
        const std::size_t end = std::min(target.find_first_of("/?"), target.size());
        to.host = lower(target.substr(0, end));
        target.remove_prefix(end);
        if (target.empty() || target.front() == '?') target = "/";
    }
    if (target.empty() || target.front() != '/') to.valid = false;
    to.path = target.substr(0, target.find_first_of("?#"));
    return to;
}

// "name", "name:port", "[v6]:port" without the port; "" if it is none of these.
std::string_view without_port(std::string_view host) {
    std::string_view name = host;
    std::string_view rest;
    if (host.starts_with('[')) {
        const std::size_t end = host.find(']');
        if (end == host.npos) return {};
        name = host.substr(1, end - 1);
        rest = host.substr(end + 1);
    } else {
        const std::size_t end = std::min(host.find(':'), host.size());
        name = host.substr(0, end);
        rest = host.substr(end);
    }
    const bool port = rest.empty() || (rest.size() > 1 && rest[0] == ':' &&
                                       rest.find_first_not_of("0123456789", 1) == rest.npos);
    return port ? name : std::string_view();
}

struct route {
    std::string_view path;
    std::string_view allow;
};
constexpr route routes[] = {
    {"/", "GET, HEAD"},        {"/events", "GET, HEAD"},  {"/control", "POST"},
    {"/metrics", "GET, HEAD"}, {"/healthz", "GET, HEAD"},
};

// Every occurrence of `name` in `text` becomes `value`.
void fill_in(std::string& text, std::string_view name, std::string_view value) {
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at)) {
        text.replace(at, name.size(), value);
        at += value.size();
    }
}

json_object settings_json(const load_options& options) {
    const std::chrono::duration<double, std::milli> time_out = options.time_out;
    json_object settings;
    settings.add("engine", name_of(options.engine))
        .add("rate", options.rate)
        .add("timeout_ms", time_out.count())
        .add("workers", options.workers);
    return settings;
}

// The figures of the load in the convention of stats.hpp.
struct load_stats {
    const load_figures* of;
    template <class Visitor>
    void visit(Visitor&& v) const {
        using enum stat_kind;
        v("calls", counter, of->calls, "calls sent, those sent again too");
        v("answered", counter, of->answered, "calls answered in time");
        v("timed_out", counter, of->timed_out, "calls whose time-out fired");
        v("retried", counter, of->retried, "calls sent again");
        v("given_up", counter, of->given_up, "calls not sent again");
        v("early", counter, of->early, "time-outs before their time: must be 0");
        v("on_their_way", gauge, of->on_their_way, "calls without an end yet");
        v("timers_fired", counter, of->fired, "timers that fired, of all kinds");
        v("timers_cancelled", counter, of->cancelled, "timers cancelled, of all kinds");
        v("timers_pending", gauge, of->pending, "timers that wait, of all kinds");
        visit_histogram(v, "lateness_ns", of->lateness,
                        "nanoseconds from a time-out's deadline to its callback");
    }
};

}  // namespace

bool same_secret(std::string_view a, std::string_view b) noexcept {
    unsigned differ = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
        differ |= static_cast<unsigned>(static_cast<unsigned char>(a[i] ^ b[i]));
    return differ == 0;
}

std::string sample_json(const sample& now, const load_options& options) {
    const load_figures& f = now.figures;
    json_object o;
    o.add("seconds", now.seconds)
        .add("calls_per_second", now.calls_per_second)
        .add("late_p50_us", now.late_p50_us)
        .add("late_p99_us", now.late_p99_us)
        .add("late_p999_us", now.late_p999_us)
        .add("late_max_us", now.late_max_us)
        .add("processors", now.processors)
        .add("resident_bytes", now.resident_bytes)
        .add("calls", f.calls)
        .add("answered", f.answered)
        .add("timed_out", f.timed_out)
        .add("retried", f.retried)
        .add("given_up", f.given_up)
        .add("early", f.early)
        .add("on_their_way", f.on_their_way)
        .add("fired", f.fired)
        .add("cancelled", f.cancelled)
        .add("pending", f.pending)
        .add("worker_busy", json_array(f.worker_busy))
        .add("settings", settings_json(options));
    return o.text();
}

http_response http_service::plain(http_status status, std::string_view text) {
    return made(status, "text/plain; charset=utf-8", std::string(text) + '\n');
}

// A page of another site can send a browser here under a name of its own (DNS rebinding).  It
// cannot do so under a name or an address that is surely ours.
bool http_service::may_be_asked_as(std::string_view host) const {
    const std::string name(without_port(host));
    if (name == "localhost" || name.ends_with(".localhost")) return true;
    std::error_code error;
    const ip::address address = ip::make_address(name, error);
    if (error) return false;
    if (options_.address.empty())
        return true;  // all addresses of this machine, we cannot know them
    return address == ip::make_address("127.0.0.1") || address == ip::make_address("::1") ||
           address == ip::make_address(options_.address);
}

http_answer http_service::answer(const http_request& request) {
    const destination to = destination_of(request);
    if (!to.valid) return {plain(http_status::bad_request, "400: no such target, or no Host")};
    const auto* const found = std::find_if(std::begin(routes), std::end(routes),
                                           [&](const route& r) { return r.path == to.path; });
    if (found == std::end(routes)) {
        return {plain(http_status::not_found,
                      "404: there are /, /events, /control, /metrics and /healthz")};
    }
    const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
    const bool writes = request.method() == http::verb::post;
    if (found->path == "/control" ? !writes : !reads) {
        http_response no =
            plain(http_status::method_not_allowed, fmt::format("405: this takes {}", found->allow));
        no.set(field::allow, beast_view(found->allow));
        return {std::move(no)};
    }
    // These two contain no secret, and scrapers use any host name.
    if (found->path == "/healthz") return {plain(http_status::ok, "ok")};
    if (found->path == "/metrics") return {metrics()};

    if (!may_be_asked_as(to.host)) {
        return {plain(http_status::forbidden,
                      "403: ask by a loopback name, or by the address listened on")};
    }
    if (found->path == "/control") return {control(request)};
    if (found->path == "/") return {page()};
    if (!backend_.room_for_events()) {
        return {plain(http_status::service_unavailable, "503: enough clients get events")};
    }
    http_response begin = made(http_status::ok, "text/event-stream", "");
    begin.set("X-Accel-Buffering", "no");
    return {std::move(begin), true};
}

http_response http_service::page() const {
    const std::string nonce = options_.nonce();
    std::string text(live_html);
    fill_in(text, "{{style}}", std::string(page_style()).append(live_css));
    fill_in(text, "{{script}}", live_js);
    fill_in(text, "{{token}}", options_.token);
    fill_in(text, "{{nonce}}", nonce);
    http_response message = made(http_status::ok, "text/html; charset=utf-8", std::move(text));
    message.set("Content-Security-Policy",
                beast_view(fmt::format(
                    "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; "
                    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'",
                    nonce)));
    message.set("Cross-Origin-Opener-Policy", "same-origin");
    message.set("Cross-Origin-Resource-Policy", "same-origin");
    return message;
}

http_response http_service::metrics() const {
    using enum stat_kind;
    const sample& now = backend_.latest();
    const load_options settings = backend_.options();
    const std::chrono::duration<double> time_out = settings.time_out;
    prometheus_text text("verge");
    text.add(load_stats{&now.figures});
    for (std::size_t worker = 0; worker < now.figures.worker_busy.size(); ++worker) {
        text.add_value("worker_busy_ratio", gauge, now.figures.worker_busy[worker],
                       "share of the time that a worker was busy",
                       {{"worker", std::to_string(worker)}});
    }
    text.add_value("calls_per_second", gauge, now.calls_per_second, "calls sent, lately")
        .add_value("rate_wanted", gauge, settings.rate, "calls a second that are asked for")
        .add_value("time_out_seconds", gauge, time_out.count(), "time-out of a call")
        .add_value("engine_info", gauge, 1, "what the time-outs stand on",
                   {{"engine", name_of(settings.engine)}})
        .add_value("processors_busy", gauge, now.processors, "processors that this program uses")
        .add_value("resident_bytes", gauge, now.resident_bytes, "memory in use")
        .add_value("up_seconds", gauge, now.seconds, "since the load began");
    std::string page = text.text();
    prometheus_text server("verge_http");
    page += server.add(backend_.stats()).text();
    return made(http_status::ok, prometheus_text::content_type, std::move(page));
}

http_response http_service::control(const http_request& request) {
    // A browser sends the origin of the page; a script of the user sends none.
    const auto origin = request.find(field::origin);
    const auto site = request.find("Sec-Fetch-Site");
    if ((origin != request.end() &&
         lower(view_of(origin->value())) != "http://" + lower(view_of(request[field::host]))) ||
        (site != request.end() && site->value() != "same-origin" && site->value() != "none")) {
        return plain(http_status::forbidden, "403: only this server's own page may do that");
    }
    const std::string whole = lower(view_of(request[field::content_type]));
    std::string type = whole.substr(0, whole.find(';'));
    type.erase(type.find_last_not_of(" \t") + 1);
    load_change change;
    try {
        if (type == "application/json") {
            change = change_from(fields_of_json(request.body()));
        } else if (type == "application/x-www-form-urlencoded") {
            change = change_from(fields_of_form(request.body()));
        } else {
            return plain(http_status::unsupported_media_type, "415: send a form, or JSON");
        }
    } catch (const bad_text& wrong) {
        return plain(http_status::bad_request, fmt::format("400: {}", wrong.what()));
    }
    const auto header = request.find("X-Verge-Token");
    const std::string_view token =
        header != request.end() ? view_of(header->value()) : std::string_view(change.token);
    if (options_.token.empty() || !same_secret(token, options_.token)) {
        return plain(http_status::forbidden,
                     "403: the token is missing or wrong: it is in the page, reload it");
    }
    try {
        backend_.apply(change);
    } catch (const std::exception& failed) {
        return plain(http_status::internal_server_error, fmt::format("500: {}", failed.what()));
    }
    return made(http_status::ok, "application/json",
                settings_json(backend_.options()).text() + '\n');
}

}  // namespace verge::tool
