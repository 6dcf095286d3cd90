// tools/verge/demo_report.cpp -- a finished run of the demo as a page, and as JSON.

#include "demo_report.hpp"

#include "duration_text.hpp"
#include "html.hpp"
#include "json.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace verge::tool {

namespace {

std::vector<double> over_time(const demo_run& run, double (*of)(const sample&)) {
    std::vector<double> values;
    for (const sample& each : run.samples.samples())
        values.push_back(of(each));
    return values;
}

// 1, 2, 5, 10, 20, 50 ... nanoseconds: the upper end of the bin that a value is in.
double bin_end(double value) noexcept {
    const double decade = std::pow(10, std::floor(std::log10(std::max(value, 1.0))));
    for (const double step : {1.0, 2.0, 5.0}) {
        if (value < step * decade) return step * decade;
    }
    return 10 * decade;
}

// The lateness of all time-outs, in bins of equal width on a logarithmic scale.
std::vector<plot_bar> lateness_bars(const histogram_snapshot& late) {
    std::vector<plot_bar> bars;
    double end = 0;
    const auto open_bin = [&](double next) {
        end = next;
        bars.push_back({.label = rounded_duration(end), .value = 0, .ours = true});
    };
    late.visit([&](std::uint64_t lowest, std::uint64_t, std::uint64_t count) {
        const double wanted = bin_end(static_cast<double>(lowest));
        if (bars.empty()) open_bin(wanted);
        while (end < wanted)
            open_bin(bin_end(end));  // an empty bin is a bin
        bars.back().value += static_cast<double>(count);
    });
    // "5.00 ms" is what a measurement is; an edge is "5 ms".
    for (plot_bar& each : bars) {
        const std::size_t point = each.label.find('.');
        if (point == std::string::npos) continue;
        each.label.erase(point, each.label.find(' ') - point);
    }
    return bars;
}

std::string introduction(const demo_run& run, std::string_view wrong) {
    return fmt::format(
        "<p>The {} engine with {} worker{}, asked for {} calls a second with a time-out of {}. "
        "Each "
        "call arms a time-out; the answer cancels it; a call that times out is sent again after a "
        "pause.</p><p><strong>{}</strong></p>{}",
        name_of(run.options.engine), run.options.workers, run.options.workers == 1 ? "" : "s",
        grouped(static_cast<std::uint64_t>(run.options.rate)),
        html_escaped(duration_text(run.options.time_out)),
        wrong.empty() ? "OK: calls = answered + timed out; nothing lost, nothing early"
                      : "WRONG: " + html_escaped(wrong),
        run.fell_behind() ? fmt::format("<p>The machine made {:.0f} % of the calls asked for.</p>",
                                        100 * run.calls_per_second() / run.options.rate)
                          : "");
}

std::string table(const demo_run& run) {
    const load_figures& f = run.samples.last().figures;
    const auto late = [&](double p) {
        return rounded_duration(static_cast<double>(f.lateness.percentile(p)));
    };
    std::vector<std::vector<std::string>> rows{
        {"calls", grouped(f.calls)},
        {"calls a second", grouped(static_cast<std::uint64_t>(run.calls_per_second()))},
        {"answered", grouped(f.answered)},
        {"timed out", grouped(f.timed_out)},
        {"sent again", grouped(f.retried)},
        {"given up", grouped(f.given_up)},
        {"early", grouped(f.early)},
        {"timers fired", grouped(f.fired)},
        {"timers cancelled", grouped(f.cancelled)},
    };
    if (f.timed_out > 0) {
        rows.insert(rows.end(), {{"late by, p50", late(50)},
                                 {"late by, p99", late(99)},
                                 {"late by, p99.9", late(99.9)},
                                 {"late by, max", late(100)}});
    }
    rows.push_back({"seconds of CPU", fmt::format("{:.2f}", run.cpu_seconds)});
    rows.push_back({"memory at most", bytes_text(run.most_resident_bytes)});
    const std::vector<std::string> names{"figure", "value"};
    return html_table(names, rows);
}

}  // namespace

std::string demo_page(const demo_run& run, std::string_view wrong) {
    const std::vector<double> seconds = over_time(run, [](const sample& s) { return s.seconds; });
    const auto plot = [&](std::string_view title, std::string_view unit,
                          std::initializer_list<plot_line> of) {
        return line_plot(title, "seconds", unit, seconds, std::span(of.begin(), of.size()));
    };
    const std::vector<std::string> parts{
        introduction(run, wrong),
        table(run),
        histogram_plot("How late time-outs fired", "late by less than", "time-outs",
                       lateness_bars(run.samples.last().figures.lateness)),
        plot("Throughput", "calls a second",
             {{"calls", over_time(run, [](const sample& s) { return s.calls_per_second; })}}),
        plot("Pending timers", "timers",
             {{"pending",
               over_time(run,
                         [](const sample& s) { return static_cast<double>(s.figures.pending); })}}),
        plot("Lateness over time", "microseconds",
             {{"p50", over_time(run, [](const sample& s) { return s.late_p50_us; })},
              {"p99", over_time(run, [](const sample& s) { return s.late_p99_us; })}}),
        plot("Processors busy", "processors",
             {{"busy", over_time(run, [](const sample& s) { return s.processors; })}}),
    };
    return html_page(fmt::format("verge demo: {} engine", name_of(run.options.engine)), parts);
}

std::string demo_json(const demo_run& run, std::string_view wrong) {
    const load_figures& f = run.samples.last().figures;
    const auto late = [&](double p) { return static_cast<double>(f.lateness.percentile(p)) / 1e3; };
    json_object all;
    all.add("engine", name_of(run.options.engine))
        .add("workers", run.options.workers)
        .add("rate_asked", run.options.rate)
        .add("time_out_seconds", std::chrono::duration<double>(run.options.time_out).count())
        .add("seconds", run.seconds_sending)
        .add("interrupted", run.interrupted)
        .add("calls_per_second", run.calls_per_second())
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
        .add("lateness_us", json_object()
                                .add("p50", late(50))
                                .add("p90", late(90))
                                .add("p99", late(99))
                                .add("p999", late(99.9))
                                .add("max", late(100)))
        .add("cpu_seconds", run.cpu_seconds)
        .add("most_resident_bytes", run.most_resident_bytes)
        .add("ok", wrong.empty())
        .add("wrong", wrong);
    return all.text();
}

}  // namespace verge::tool
