// tools/verge/demo.cpp -- `verge demo`: runs a load, shows it live, and checks and reports its
// counts.

#include "commands.hpp"
#include "demo_report.hpp"
#include "duration_text.hpp"
#include "load.hpp"
#include "sample.hpp"
#include "terminal.hpp"
#include "view.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

namespace verge::tool {

namespace {

using namespace std::chrono_literals;

struct demo_options {
    double seconds = 20;
    double rate = load_options{}.rate;
    std::string time_out = "200ms";
    int workers = 0;
    std::string engine = "thread";
    std::string report;
    bool json = false;
};

constexpr double most_seconds = 86'400;

time_point now() {
    return steady_source{}.now();
}

duration seconds_of(double seconds) {
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>(seconds));
}

load_options checked(const demo_options& asked) {
    // Written so that what is no number is refused too.
    if (!(asked.seconds > 0 && asked.seconds <= most_seconds)) {
        throw CLI::ValidationError("--seconds", "must be more than 0, and 86400 at most");
    }
    if (!(asked.rate >= load_options::least_rate && asked.rate <= load_options::most_rate)) {
        throw CLI::ValidationError("--rate", "must be 1 to 10000000 calls a second");
    }
    if (asked.workers < 0 || asked.workers > static_cast<int>(load_options::most_workers)) {
        throw CLI::ValidationError("--workers", "must be 1 to 256, or 0: one a processor");
    }
    const std::optional<duration> time_out = parse_duration(asked.time_out);
    if (!time_out) {
        throw CLI::ValidationError("--timeout",
                                   "'" + asked.time_out + "' is no duration such as 200ms or 1.5s");
    }
    if (*time_out < load_options::least_time_out || *time_out > load_options::most_time_out) {
        throw CLI::ValidationError("--timeout", "must be 1ms to 60s");
    }
    const std::optional<engine_kind> engine = engine_named(asked.engine);
    if (!engine) {
        throw CLI::ValidationError("--engine",
                                   "'" + asked.engine + "' is none of thread, fiber and loop");
    }
    return {.engine = *engine,
            .rate = asked.rate,
            .time_out = *time_out,
            .workers = static_cast<unsigned>(asked.workers)};
}

// Before the run, not after it.  An existing file stays until a new one replaces it.
void check_writable(const std::string& path) {
    if (!std::ofstream(path, std::ios::app)) {
        throw std::runtime_error("demo: --report: cannot write '" + path + "'");
    }
}

void write_report(const std::string& path, const std::string& page) {
    std::ofstream file(path);
    file << page;
    file.close();
    if (!file) throw std::runtime_error("demo: --report: could not write all of '" + path + "'");
}

enum class showing { in_place, lines, nothing };

// One run, from its first call to the end of its last.
class demo {
public:
    demo(const load_options& options, double seconds, showing how)
        : how_(how), load_(options), sampler_(load_), begin_(now()), next_line_(begin_ + 1s) {
        run_.options = load_.options();
        run_.seconds_asked = seconds;
        run_.processors = std::max(1U, std::thread::hardware_concurrency());
        if (how_ == showing::lines) show_heading();
    }

    const demo_run& run() {
        const time_point end = begin_ + seconds_of(run_.seconds_asked);
        for (time_point next = begin_; now() < end && !run_.interrupted;) {
            next = std::min(std::max(next + look_every, now()), end);
            pass_time_until(next);
            look();
        }
        run_.finishing = true;
        // A call that has not ended by then is lost, and the check reports it.
        const time_point patience =
            now() + run_.options.time_out * load_options::most_attempts + 30s;
        while (!load_.finish_until(now() + look_every) && now() < patience) {
            pass_time_until(now());
            look();
        }
        look();
        run_.cpu_seconds = static_cast<double>(std::clock() - clock_begin_) / CLOCKS_PER_SEC;
        screen_.erase();  // the summary has all figures
        if (how_ == showing::in_place) show_heading();
        return run_;
    }

private:
    static constexpr duration look_every = 200ms;

    // Until then, or until a signal ends the run.
    void pass_time_until(time_point deadline) {
        while (const int signal = signals_.take_until(deadline)) {
            if (signal == SIGWINCH) {
                show();
            } else if (signal == SIGTSTP) {
                screen_.leave();
                signals_.let_act(signal);
            } else if (!run_.interrupted) {
                run_.interrupted = true;
                return;
            } else {
                screen_.leave();
                signals_.let_act(signal);
            }
        }
    }

    void look() {
        const sample taken = sampler_.take();
        run_.samples.add(taken);
        run_.most_resident_bytes = std::max(run_.most_resident_bytes, taken.resident_bytes);
        if (!run_.finishing) {
            run_.seconds_sending = taken.seconds;
            run_.calls_sending = taken.figures.calls;
        }
        show();
    }

    void show() {
        if (run_.samples.empty()) return;
        if (how_ == showing::in_place) screen_.show(live_view(run_, terminal_style()));
        if (how_ == showing::lines && now() >= next_line_) show_line();
    }

    void show_heading() const {
        fmt::print("{}", heading(run_, terminal_style()));
        std::fflush(stdout);
    }

    // A line a second, and no more than thirty or so in a long run.
    void show_line() {
        fmt::print("{}\n", progress_line(run_));
        std::fflush(stdout);
        next_line_ += std::max<duration>(1s, seconds_of(run_.seconds_asked / 30));
    }

    const showing how_;
    const std::clock_t clock_begin_ = std::clock();
    taken_signals signals_;  // before the load, whose threads inherit it
    load load_;
    sampler sampler_;
    time_point begin_;
    time_point next_line_;
    in_place_text screen_;
    demo_run run_;
};

int run_demo(const demo_options& asked) {
    const load_options options = checked(asked);
    if (!asked.report.empty()) check_writable(asked.report);
    const showing how = asked.json      ? showing::nothing
                        : on_terminal() ? showing::in_place
                                        : showing::lines;
    demo_run run;
    {
        demo running(options, asked.seconds, how);
        run = running.run();
    }
    const std::string wrong = what_is_wrong(run.samples.last().figures);
    if (!asked.json) fmt::print("\n{}", summary(run, wrong, terminal_style()));
    if (!asked.report.empty()) {
        write_report(asked.report, demo_page(run, wrong));
        if (!asked.json) fmt::print("The report is in {}\n", asked.report);
    }
    if (asked.json) fmt::print("{}\n", demo_json(run, wrong));
    std::fflush(stdout);
    return wrong.empty() ? 0 : 1;
}

}  // namespace

void add_demo(CLI::App& program, int& status) {
    CLI::App* const command = program.add_subcommand(
        "demo", "RPC calls with time-outs and retries, live, and a check of every one of them");
    const auto asked = std::make_shared<demo_options>();
    command->add_option("--seconds", asked->seconds, "How long to send calls")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--rate", asked->rate, "Calls a second, over all workers")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--timeout", asked->time_out, "Of a call: 200ms, 1.5s ...")
        ->type_name("TIME")
        ->capture_default_str();
    command->add_option("--workers", asked->workers, "Threads; 0: one a processor")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--engine", asked->engine, "What time-outs stand on: thread, fiber or loop")
        ->type_name("NAME")
        ->capture_default_str();
    command->add_option("--report", asked->report, "Write a page with plots into this HTML file")
        ->type_name("FILE");
    command->add_flag("--json", asked->json, "Print one JSON object instead");
    command->footer(
        "Ctrl-C ends it early, with the summary.  The exit code is 0 if every call has its end,\n"
        "none was lost and no time-out fired early; 1 if not; 2 if it could not run.");
    command->callback([asked, &status] { status = run_demo(*asked); });
}

}  // namespace verge::tool
