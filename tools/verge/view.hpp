// tools/verge/view.hpp -- what `verge demo` shows of a run, as text.  Pure functions.

#pragma once

#include "history.hpp"
#include "load.hpp"
#include "sample.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace verge::tool {

/// The style of text.
struct text_style {
    std::size_t columns = 80;
    bool colours = false;
    bool unicode = false;  // blocks for bars; else ASCII
};

/// One run of the demo, as far as it has come.
struct demo_run {
    load_options options;        // with the number of workers that there are
    double seconds_asked = 0;    // of sending
    unsigned processors = 1;     // of the machine
    history samples;             // at least one
    double seconds_sending = 0;  // so far
    std::uint64_t calls_sending = 0;
    double cpu_seconds = 0;  // of the process, in all
    std::uint64_t most_resident_bytes = 0;
    bool finishing = false;    // no new calls are sent
    bool interrupted = false;  // by a signal

    /// Over the time of sending.
    [[nodiscard]] double calls_per_second() const noexcept {
        return seconds_sending > 0 ? static_cast<double>(calls_sending) / seconds_sending : 0;
    }
    /// Whether the machine was too slow for the rate.  False during the first second.
    [[nodiscard]] bool fell_behind() const noexcept {
        return seconds_sending >= 1 && calls_per_second() < 0.95 * options.rate;
    }
};

/// "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t n);
/// "4.9 MB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// `share` of a bar that is `columns` wide; share is held in 0 to 1.
[[nodiscard]] std::string bar(double share, std::size_t columns, const text_style& style);

/// The last `columns` values as a row of levels.  The scale is logarithmic, from the least to the
/// greatest, which are taken to be a factor of ten apart at least: noise stays small.  0 is no
/// value, and lowest.
[[nodiscard]] std::string sparkline(std::span<const double> values, std::size_t columns,
                                    const text_style& style);

/// How many columns the text takes on a terminal: colours take none, and a character one.
[[nodiscard]] std::size_t visible_columns(std::string_view line) noexcept;

/// What is run: a line, or three where that is too wide.
[[nodiscard]] std::string heading(const demo_run& run, const text_style& style);

/// The live view: lines that each end with '\n' and are no wider than the style's columns.
[[nodiscard]] std::string live_view(const demo_run& run, const text_style& style);

/// The same as one line, without its end: for pipes.
[[nodiscard]] std::string progress_line(const demo_run& run);

/// The end: a table, and what the check found (`wrong` as of what_is_wrong).
[[nodiscard]] std::string summary(const demo_run& run, std::string_view wrong,
                                  const text_style& style);

}  // namespace verge::tool
