// tools/verge/html.hpp -- self-contained pages with plots as inline SVG: what --report writes.
//
// Dark and light by the reader's setting, no script, nothing from the network, readable on a phone.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verge::tool {

/// With & < > " escaped.
[[nodiscard]] std::string html_escaped(std::string_view text);

/// The style that our pages share, also the live one of `verge serve`.  Colours are CSS variables:
/// --ground --panel --ink --faint --line --good --bad --series-0 to --series-3.
[[nodiscard]] std::string_view page_style();

/// A whole page: a heading, then the parts one below the other, each in a panel.
[[nodiscard]] std::string html_page(std::string_view title, std::span<const std::string> parts);

/// A table with a heading row.  Cells are text; those that begin like numbers are set right.
[[nodiscard]] std::string html_table(std::span<const std::string> heading,
                                     std::span<const std::vector<std::string>> rows);

struct plot_line {
    std::string name;
    std::vector<double> y;  // as many as there are x
};

/// Lines over x; y from 0.  Axes with round numbers; a legend if there is more than one line.
[[nodiscard]] std::string line_plot(std::string_view title, std::string_view x_label,
                                    std::string_view y_label, std::span<const double> x,
                                    std::span<const plot_line> lines);

struct plot_bar {
    std::string label;
    double value;
    bool ours = false;  // in the first colour; others are grey
};

/// Upright bars side by side, from 0: a histogram.  Labels are shown where there is room.
[[nodiscard]] std::string histogram_plot(std::string_view title, std::string_view x_label,
                                         std::string_view y_label, std::span<const plot_bar> bars);

/// Lying bars, one a line, with label and value: a comparison.
[[nodiscard]] std::string comparison_plot(std::string_view title, std::string_view unit,
                                          std::span<const plot_bar> bars);

}  // namespace verge::tool
