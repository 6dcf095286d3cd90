// tools/verge/view.cpp -- a load as text for a terminal.

#include "view.hpp"

#include "duration_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

namespace verge::tool {

namespace {

constexpr std::string_view reset = "\x1b[0m";
constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view faint = "\x1b[2m";
constexpr std::string_view green = "\x1b[32m";
constexpr std::string_view red = "\x1b[31m";
constexpr std::string_view yellow = "\x1b[33m";
constexpr std::string_view cyan = "\x1b[36m";

constexpr std::array<std::string_view, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> signs{".", ":", "-", "=", "+", "*", "%", "#"};

std::string painted(std::string_view text, std::string_view colour, const text_style& style) {
    return style.colours ? fmt::format("{}{}{}", colour, text, reset) : std::string(text);
}

bool continues_character(char c) noexcept {
    return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Where the character, or the colour, at `at` ends; a colour takes no column.
std::size_t end_of_piece(std::string_view text, std::size_t at, bool& takes_column) noexcept {
    takes_column = text[at] != '\x1b';
    if (!takes_column) return std::min(text.find('m', at), text.size() - 1) + 1;
    do {
        ++at;
    } while (at < text.size() && continues_character(text[at]));
    return at;
}

// Lines that are cut where the terminal ends.
class lines {
public:
    explicit lines(const text_style& style) : style_(style) {}
    void add(std::string_view line) {
        while (line.ends_with(' '))
            line.remove_suffix(1);
        std::size_t columns = 0;
        bool takes_column = false;
        for (std::size_t at = 0; at < line.size();) {
            const std::size_t end = end_of_piece(line, at, takes_column);
            if (takes_column && ++columns > style_.columns) {
                text_ += line.substr(0, at);
                text_ += style_.colours ? reset : std::string_view{};
                text_ += '\n';
                return;
            }
            at = end;
        }
        text_ += line;
        text_ += '\n';
    }
    [[nodiscard]] std::string text() && { return std::move(text_); }

private:
    const text_style& style_;
    std::string text_;
};

std::string_view level(double share, const text_style& style) noexcept {
    const auto at = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 7));
    return style.unicode ? blocks[at] : signs[at];
}

std::string late_text(std::uint64_t nanoseconds) {
    return rounded_duration(static_cast<double>(nanoseconds));
}

struct entry {
    std::string name;
    std::string value;
};

// Names and values in pairs of columns: as many side by side as there is room for.
void add_entries(lines& to, const std::vector<entry>& entries, const text_style& style) {
    constexpr std::size_t name_columns = 13;
    constexpr std::size_t value_columns = 13;
    constexpr std::size_t gap = 4;
    const std::size_t wide = name_columns + value_columns + gap;
    const std::size_t beside = std::clamp<std::size_t>((style.columns + gap - 2) / wide, 1, 2);
    for (std::size_t i = 0; i < entries.size(); i += beside) {
        std::string line = "  ";
        for (std::size_t j = i; j < std::min(i + beside, entries.size()); ++j) {
            if (j > i) line += std::string(gap, ' ');
            line += painted(fmt::format("{:<{}}", entries[j].name, name_columns), faint, style);
            line += fmt::format("{:>{}}", entries[j].value, value_columns);
        }
        to.add(line);
    }
}

std::string header_of(const demo_run& run) {
    return fmt::format(
        "{} engine, {} worker{}, {} calls/s, time-out {}", name_of(run.options.engine),
        run.options.workers, run.options.workers == 1 ? "" : "s",
        grouped(static_cast<std::uint64_t>(run.options.rate)), duration_text(run.options.time_out));
}

void add_header(lines& to, const demo_run& run, const text_style& style) {
    const std::string title = painted("verge demo", bold, style);
    const std::string header = header_of(run);
    if (header.size() + 14 <= style.columns) {
        to.add(fmt::format("{}  {}", title, header));
        return;
    }
    to.add(title);
    const std::size_t half = header.find(", ", header.find(", ") + 1);
    to.add("  " + header.substr(0, half + 1));
    to.add("  " + header.substr(half + 2));
}

void add_progress(lines& to, const demo_run& run, const text_style& style) {
    const double done = std::min(run.seconds_sending, run.seconds_asked);
    const std::string where = run.finishing ? std::string("ending the calls on their way")
                                            : fmt::format("{:.1f} / {} s", done, run.seconds_asked);
    const std::size_t taken = where.size() + 4;
    const std::size_t room = style.columns > taken + 4 ? style.columns - taken : 4;
    to.add("  " +
           painted(bar(done / run.seconds_asked, std::min<std::size_t>(room, 50), style), cyan,
                   style) +
           "  " + where);
}

void add_lateness(lines& to, const demo_run& run, const text_style& style) {
    const histogram_snapshot& late = run.samples.last().figures.lateness;
    const std::string values =
        late.count() == 0
            ? std::string("no time-out has fired yet")
            : fmt::format("p50 {}  p99 {}  p99.9 {}  max {}", late_text(late.percentile(50)),
                          late_text(late.percentile(99)), late_text(late.percentile(99.9)),
                          late_text(late.max()));
    const std::string name = painted(fmt::format("{:<13}", "late by"), faint, style);
    if (values.size() + 15 <= style.columns) {
        to.add("  " + name + values);
    } else {
        const std::size_t half = values.find("  p99.9");
        to.add("  " + name);
        to.add("    " + values.substr(0, half));
        if (half != std::string::npos) to.add("    " + values.substr(half + 2));
    }
    std::vector<double> recent;
    for (const sample& each : run.samples.samples())
        recent.push_back(each.late_p99_us);
    const bool wide = style.columns >= 60;
    const std::size_t room = style.columns > 20 ? style.columns - (wide ? 17 : 6) : 4;
    if (!wide) to.add("  " + painted("late, p99", faint, style));
    to.add((wide ? "  " + painted(fmt::format("{:<13}", "late, p99"), faint, style)
                 : std::string("    ")) +
           painted(sparkline(recent, std::min<std::size_t>(room, 60), style), yellow, style));
}

// A bar each, two beside each other; or, if there are many, a level each.
void add_workers(lines& to, const demo_run& run, const text_style& style) {
    const std::vector<double>& busy = run.samples.last().figures.worker_busy;
    const std::string name = painted(fmt::format("{:<13}", "workers"), faint, style);
    if (busy.size() > 8) {
        std::string levels;
        const std::size_t room = style.columns > 20 ? style.columns - 17 : 4;
        for (std::size_t i = 0; i < std::min(busy.size(), room); ++i)
            levels += level(busy[i], style);
        to.add("  " + name + painted(levels, green, style));
        return;
    }
    const bool wide = style.columns >= 64;
    const std::size_t beside = wide ? 2 : 1;
    const std::size_t width = std::clamp<std::size_t>(
        (std::min<std::size_t>(style.columns, 80) - 15) / beside - 9, 4, 40);
    for (std::size_t i = 0; i < busy.size(); i += beside) {
        std::string line = "  " + (i == 0 ? name : std::string(13, ' '));
        for (std::size_t j = i; j < std::min(i + beside, busy.size()); ++j) {
            line += painted(bar(busy[j], width, style), green, style) +
                    fmt::format(" {:>3.0f} %   ", busy[j] * 100);
        }
        to.add(line);
    }
}

}  // namespace

std::string grouped(std::uint64_t n) {
    std::string digits = std::to_string(n);
    for (std::size_t at = digits.size(); at > 3; at -= 3)
        digits.insert(at - 3, 1, ',');
    return digits;
}

std::string bytes_text(std::uint64_t bytes) {
    const auto value = static_cast<double>(bytes);
    if (value < 1e6) return fmt::format("{:.0f} kB", value / 1e3);
    if (value < 1e9) return fmt::format("{:.1f} MB", value / 1e6);
    return fmt::format("{:.2f} GB", value / 1e9);
}

std::string bar(double share, std::size_t columns, const text_style& style) {
    const double held = share > 0 ? std::min(share, 1.0) : 0;  // what is no number too
    const auto full = static_cast<std::size_t>(std::lround(held * static_cast<double>(columns)));
    std::string text;
    for (std::size_t i = 0; i < columns; ++i) {
        if (style.unicode) {
            text += i < full ? "█" : "░";
        } else {
            text += i < full ? '#' : '.';
        }
    }
    return text;
}

std::string sparkline(std::span<const double> values, std::size_t columns,
                      const text_style& style) {
    if (values.size() > columns) values = values.last(columns);
    const auto height = [](double value) { return std::log10(std::max(value, 1.0)); };
    double least = std::numeric_limits<double>::max();
    double greatest = 0;
    for (const double each : values) {
        if (each > 0) least = std::min(least, height(each));  // 0: nothing was measured
        greatest = std::max(greatest, height(each));
    }
    const double span = std::max(greatest - least, 1.0);
    std::string text;
    for (const double each : values)
        text += level((height(each) - least) / span, style);
    return text;
}

std::size_t visible_columns(std::string_view line) noexcept {
    std::size_t columns = 0;
    bool takes_column = false;
    for (std::size_t at = 0; at < line.size();) {
        at = end_of_piece(line, at, takes_column);
        if (takes_column) ++columns;
    }
    return columns;
}

std::string heading(const demo_run& run, const text_style& style) {
    lines text(style);
    add_header(text, run, style);
    return std::move(text).text();
}

std::string live_view(const demo_run& run, const text_style& style) {
    const sample& last = run.samples.last();
    const load_figures& f = last.figures;
    lines text(style);
    add_header(text, run, style);
    add_progress(text, run, style);
    text.add("");
    add_entries(text,
                {
                    {"calls/s", grouped(static_cast<std::uint64_t>(last.calls_per_second))},
                    {"calls", grouped(f.calls)},
                    {"answered", grouped(f.answered)},
                    {"timed out", grouped(f.timed_out)},
                    {"sent again", grouped(f.retried)},
                    {"given up", grouped(f.given_up)},
                    {"on their way", grouped(f.on_their_way)},
                    {"pending", grouped(f.pending)},
                    {"fired", grouped(f.fired)},
                    {"cancelled", grouped(f.cancelled)},
                    {"CPU", fmt::format("{:.2f} of {}", last.processors, run.processors)},
                    {"memory", bytes_text(last.resident_bytes)},
                },
                style);
    text.add("");
    add_lateness(text, run, style);
    add_workers(text, run, style);
    return std::move(text).text();
}

std::string progress_line(const demo_run& run) {
    const sample& last = run.samples.last();
    const load_figures& f = last.figures;
    return fmt::format(
        "{:6.1f} s  {:>9} calls/s  pending {:>7}  fired {:>11}  cancelled {:>11}  "
        "late p50 {:>7}  p99 {:>7}  max {:>7}  CPU {:.2f}  {}",
        last.seconds, grouped(static_cast<std::uint64_t>(last.calls_per_second)),
        grouped(f.pending), grouped(f.fired), grouped(f.cancelled),
        late_text(f.lateness.percentile(50)), late_text(f.lateness.percentile(99)),
        late_text(f.lateness.max()), last.processors, bytes_text(last.resident_bytes));
}

std::string summary(const demo_run& run, std::string_view wrong, const text_style& style) {
    const load_figures& f = run.samples.last().figures;
    lines text(style);
    const auto row = [&](std::string_view name, const std::string& value, std::string_view remark) {
        const bool fits = !remark.empty() && 31 + remark.size() <= style.columns;
        text.add(fmt::format("  {}{:>13}   {}", painted(fmt::format("{:<13}", name), faint, style),
                             value, fits ? painted(remark, faint, style) : ""));
    };
    const auto count = [&](std::string_view name, std::uint64_t value, std::string_view remark) {
        row(name, grouped(value), remark);
    };
    count("calls", f.calls,
          fmt::format("{} a second, for {:.1f} s{}",
                      grouped(static_cast<std::uint64_t>(run.calls_per_second())),
                      run.seconds_sending, run.interrupted ? ", then interrupted" : ""));
    count("answered", f.answered, "which cancelled their time-outs");
    count("timed out", f.timed_out, "");
    count("sent again", f.retried, "of the calls: after a pause, by a timer too");
    count("given up", f.given_up, fmt::format("after {} attempts", load_options::most_attempts));
    count("early", f.early, "time-outs before their time");
    count("timers", f.fired + f.cancelled,
          fmt::format("{} fired, {} cancelled", grouped(f.fired), grouped(f.cancelled)));
    if (f.timed_out > 0) {
        const auto late = [&](double p) { return late_text(f.lateness.percentile(p)); };
        row("late by p50", late(50), "from a time-out's deadline to its callback");
        row("p99", late(99), "");
        row("p99.9", late(99.9), "");
        row("max", late(100), "");
    }
    row("CPU", fmt::format("{:.2f} s", run.cpu_seconds),
        f.calls == 0 ? std::string()
                     : rounded_duration(run.cpu_seconds * 1e9 / static_cast<double>(f.calls)) +
                           " a call, all in all");
    row("memory", bytes_text(run.most_resident_bytes), "at most");
    text.add("");
    std::string all = std::move(text).text();
    // These are not cut: they are what counts.
    if (run.fell_behind()) {
        all += painted(fmt::format("The machine made {:.0f} % of the calls asked for.",
                                   100 * run.calls_per_second() / run.options.rate),
                       yellow, style) +
               "\n";
    }
    all += wrong.empty() ? painted("OK", green, style) +
                               ": calls = answered + timed out; nothing lost, nothing early\n"
                         : painted("WRONG", red, style) + fmt::format(": {}\n", wrong);
    return all;
}

}  // namespace verge::tool
