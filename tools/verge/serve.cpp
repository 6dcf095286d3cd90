// tools/verge/serve.cpp -- `verge serve`: the load as a service with a live page.

#include "commands.hpp"
#include "duration_text.hpp"
#include "http_server.hpp"
#include "json.hpp"
#include <verge/io/io_context.hpp>
#include <verge/io/periodic_timer.hpp>
#include <verge/io/signal_set.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include <sys/random.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace verge::tool {

namespace {

using namespace std::chrono_literals;

struct serve_options {
    std::string listen = "127.0.0.1:8765";
    load_options load;
    http_limits limits;
    duration sample_every = 250ms;
    duration grace = 1s;
    bool json = false;
};

// How many samples a page that comes later gets to draw: a minute.
constexpr std::size_t history_limit = 240;

ip::tcp::endpoint endpoint_from(const std::string& text) {
    const auto wrong = [&](std::string_view why) {
        return CLI::ValidationError("--listen",
                                    fmt::format("{}: {}, as in 127.0.0.1:8765", text, why));
    };
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) throw wrong("give an address and a port");
    std::string host = text.substr(0, colon);
    if (host == "localhost") host = "127.0.0.1";
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    if (bracketed) host = host.substr(1, host.size() - 2);
    std::error_code error;
    const ip::address address = ip::make_address(host, error);
    if (error || bracketed != address.is_v6()) {
        throw wrong("this is no address of IPv4, nor one of IPv6 in brackets");
    }
    std::uint16_t port = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, bad] = std::from_chars(text.data() + colon + 1, end, port);
    if (bad != std::errc() || stop != end) throw wrong("the port is a number up to 65535");
    return {address, port};
}

std::string text_of(const ip::tcp::endpoint& at) {
    const std::string address = at.address().to_string();
    return fmt::format(fmt::runtime(at.address().is_v6() ? "[{}]:{}" : "{}:{}"), address,
                       at.port());
}

bool is_loopback(const ip::address& address) {
    return address.to_string().starts_with("127.") || address == ip::make_address("::1");
}

std::string random_name() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        throw std::system_error(errno, std::system_category(), "getrandom");
    }
    std::string name;
    for (const unsigned char byte : bytes)
        name += fmt::format("{:02x}", byte);
    return name;
}

// As many descriptors as the system lets us have, and what is left of them for connections.
std::size_t most_connections(std::size_t wanted) {
    constexpr rlim_t others = 64;  // the load, the loops, standard streams
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
    const rlim_t enough = wanted + others;
    if (files.rlim_cur < enough) {
        files.rlim_cur = std::min(enough, files.rlim_max);
        static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));  // then there are fewer places
        ::getrlimit(RLIMIT_NOFILE, &files);
    }
    const rlim_t left = files.rlim_cur > 2 * others ? files.rlim_cur - others : files.rlim_cur / 2;
    return std::max<std::size_t>(1, std::min<std::size_t>(wanted, left));
}

// The load, its samples, and the server that shows them.
class live_service final : private serve_backend {
public:
    explicit live_service(const serve_options& options)
        : options_(options),
          at_(endpoint_from(options.listen)),
          boot_(random_name()),
          io_(1),
          signals_(io_, SIGINT, SIGTERM),
          server_(listening()),
          load_(options.load),
          sampler_(load_),
          latest_(sampler_.take()),
          ticks_(io_, options.sample_every) {}

    int run() {
        announce();
        await_signal();
        tick();
        io_.run();
        latest_ = sampler_.take();
        summarize();
        return 0;
    }

private:
    std::unique_ptr<http_server> listening() {
        http_limits limits = options_.limits;
        limits.connections = most_connections(limits.connections);
        try {
            return std::make_unique<http_server>(io_, at_, service_, limits,
                                                 [this] { return event("history", history()); });
        } catch (const std::system_error& refused) {
            throw std::runtime_error(
                fmt::format("cannot listen on {}: {}", options_.listen, refused.code().message()));
        }
    }
    http_service::options service_options() const {
        const std::string address = at_.address().to_string();
        const bool any = address == "0.0.0.0" || address == "::";
        return {any ? "" : address, random_name(), random_name};
    }

    // ---- called by the service
    [[nodiscard]] const sample& latest() const override { return latest_; }
    [[nodiscard]] load_options options() const override { return load_.options(); }
    [[nodiscard]] http_stats stats() const override { return server_->stats(); }
    [[nodiscard]] bool room_for_events() const override { return server_->room_for_events(); }
    void apply(const load_change& change) override {
        if (change.rate) load_.set_rate(*change.rate);
        if (change.time_out) load_.set_time_out(*change.time_out);
        if (change.engine) load_.set_engine(*change.engine);
    }

    // ---- samples
    void tick() {
        ticks_.async_wait([this](std::error_code cancelled) {
            if (cancelled || stopping_) return;
            latest_ = sampler_.take();
            history_.push_back(sample_json(latest_, load_.options()));
            if (history_.size() > history_limit) history_.pop_front();
            server_->broadcast(event("sample", history_.back()));
            tick();
        });
    }
    [[nodiscard]] std::string history() const {
        std::string samples;
        for (const std::string& each : history_)
            samples += (samples.empty() ? "" : ",") + each;
        return fmt::format(R"({{"boot":{},"samples":[{}]}})", json_quoted(boot_), samples);
    }
    static std::shared_ptr<const std::string> event(std::string_view name, std::string_view data) {
        return std::make_shared<const std::string>(
            fmt::format("event: {}\ndata: {}\n\n", name, data));
    }

    // ---- the end
    void await_signal() {
        signals_.async_wait([this](std::error_code error, int) {
            if (error) return;
            // Then nothing keeps the loop running but connections, which come to their end.
            stopping_ = true;
            ticks_.cancel();
            server_->stop(options_.grace);
        });
    }

    // ---- what a person reads
    void announce() const {
        const std::string url = fmt::format("http://{}/", text_of(server_->endpoint()));
        if (!is_loopback(at_.address())) {
            fmt::print(stderr,
                       "verge: warning: {} can be reached from other machines, and whoever opens "
                       "the page can change the load\n",
                       text_of(server_->endpoint()));
        }
        if (options_.json) {
            fmt::print(
                "{}\n",
                json_object().add("url", url).add("port", server_->endpoint().port()).text());
        } else {
            fmt::print("The live page:   {0}\nFor Prometheus:  {0}metrics\nCtrl-C ends it.\n", url);
        }
        std::fflush(stdout);
    }
    void summarize() const {
        const load_figures& f = latest_.figures;
        const http_stats web = server_->stats();
        if (options_.json) {
            json_object summary;
            summary.add("seconds", latest_.seconds)
                .add("calls", f.calls)
                .add("answered", f.answered)
                .add("timed_out", f.timed_out)
                .add("on_their_way", f.on_their_way)
                .add("early", f.early)
                .add("late_p50_us", static_cast<double>(f.lateness.percentile(50)) / 1e3)
                .add("late_p99_us", static_cast<double>(f.lateness.percentile(99)) / 1e3);
            web.visit([&](std::string_view name, stat_kind, std::uint64_t value, std::string_view) {
                summary.add(fmt::format("http_{}", name), value);
            });
            fmt::print("{}\n", summary.text());
            return;
        }
        fmt::print(
            "\nRan for {:.1f} s: {} calls, {} answered, {} timed out, {} on their way, {} early.\n"
            "Time-outs came {:.1f} us late at the median, {:.1f} us at the 99th percentile.\n"
            "{} requests on {} connections; {} refused, {} clients too slow.\n",
            latest_.seconds, f.calls, f.answered, f.timed_out, f.on_their_way, f.early,
            static_cast<double>(f.lateness.percentile(50)) / 1e3,
            static_cast<double>(f.lateness.percentile(99)) / 1e3, web.requests, web.connections,
            web.refused, web.timed_out);
    }

    const serve_options& options_;
    ip::tcp::endpoint at_;
    std::string boot_;  // of this run: a page of another one has a token that is not ours
    io_context io_;
    signal_set signals_;
    http_service service_{*this, service_options()};
    std::unique_ptr<http_server> server_;
    load load_;
    sampler sampler_;
    sample latest_;
    std::deque<std::string> history_;
    periodic_timer ticks_;
    bool stopping_ = false;
};

}  // namespace

void add_serve(CLI::App& program, int& status) {
    CLI::App* const command =
        program.add_subcommand("serve", "The load as a service, with a live page and /metrics");
    const auto options = std::make_shared<serve_options>();
    const auto add_time = [command](const char* name, duration& to, const char* what) {
        return command->add_option_function<std::string>(
            name,
            [name, &to](const std::string& text) {
                const std::optional<duration> time = parse_duration(text);
                if (!time || *time <= duration::zero()) {
                    throw CLI::ValidationError(name, text + " is no time, such as 200ms");
                }
                to = *time;
            },
            what);
    };
    command->add_option("--listen", options->listen, "Address and port; port 0: any free one")
        ->capture_default_str();
    command->add_option("--rate", options->load.rate, "Calls a second")
        ->check(CLI::Range(load_options::least_rate, load_options::most_rate))
        ->capture_default_str();
    add_time("--timeout", options->load.time_out, "Of a call: 200ms, 1.5s ...")
        ->default_str("200ms");
    command->add_option("--workers", options->load.workers, "Threads; 0: one a processor")
        ->check(CLI::Range(0U, load_options::most_workers))
        ->capture_default_str();
    command
        ->add_option_function<std::string>(
            "--engine",
            [options](const std::string& name) {
                const std::optional<engine_kind> engine = engine_named(name);
                if (!engine) {
                    throw CLI::ValidationError("--engine", name + " is not thread, fiber or loop");
                }
                options->load.engine = *engine;
            },
            "What time-outs stand on: thread, fiber or loop")
        ->default_str("thread");
    command->add_flag("--json", options->json, "Print the address and the summary as JSON");
    // For the tests, which do not wait for ten seconds.
    add_time("--request-limit", options->limits.request, "")->group("");
    add_time("--idle-limit", options->limits.idle, "")->group("");
    add_time("--write-limit", options->limits.write, "")->group("");
    add_time("--grace", options->grace, "")->group("");
    add_time("--sample-every", options->sample_every, "")->group("");
    command->add_option("--most-connections", options->limits.connections)->group("");
    command->add_option("--most-event-clients", options->limits.event_clients)->group("");
    command->callback([options, &status] {
        if (options->load.time_out < load_options::least_time_out ||
            options->load.time_out > load_options::most_time_out) {
            throw CLI::ValidationError("--timeout", "must be from 1ms to 60s");
        }
        status = live_service(*options).run();
    });
}

}  // namespace verge::tool
