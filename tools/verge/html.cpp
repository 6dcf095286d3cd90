// tools/verge/html.cpp -- self-contained pages with plots as inline SVG.

#include "html.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace verge::tool {

namespace {

constexpr std::string_view style = R"(
:root { color-scheme: light dark;
  --ground: #f6f7f9; --panel: #ffffff; --ink: #1d2430; --faint: #667085; --line: #dfe3ea;
  --good: #13795b; --bad: #b42318;
  --series-0: #1f6feb; --series-1: #d9730d; --series-2: #13795b; --series-3: #8250df; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #11151c; --panel: #191f29; --ink: #e6eaf0; --faint: #98a2b3; --line: #2c3543;
  --good: #4cc38a; --bad: #ff7b72;
  --series-0: #6ea8fe; --series-1: #ffa657; --series-2: #4cc38a; --series-3: #bc8cff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
section { background: var(--panel); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem; margin: 0 0 1rem; overflow-x: auto; }
p { margin: .25rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { color: var(--faint); font-weight: 600; text-align: left; }
th, td { padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th.number, td.number { text-align: right; }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--faint); }
svg text.strong { fill: var(--ink); }
svg .axis { stroke: var(--line); }
svg .ours { fill: var(--series-0); }
svg .other { fill: var(--faint); opacity: .55; }
.faint { color: var(--faint); }
.good { color: var(--good); }
.bad { color: var(--bad); }
)";

constexpr double width = 640;
constexpr double height = 240;
constexpr double left = 56;
constexpr double right = 12;
constexpr double top = 12;
constexpr double bottom = 40;
constexpr std::size_t series_colours = 4;

// The step of an axis to `most` with about `count` steps: 1, 2 or 5 times a power of ten.
double round_step(double most, int count) {
    if (!(most > 0) || !std::isfinite(most)) return 1;
    const double raw = most / count;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= raw * 0.999) return factor * power;
    }
    return 10 * power;
}

// 1500000 as 1.5M.
std::string short_number(double value) {
    if (value >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
    if (value >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
    if (value >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
    return fmt::format("{:.4g}", value);
}

double largest(std::span<const double> values) {
    double most = 0;
    for (const double v : values)
        if (std::isfinite(v)) most = std::max(most, v);
    return most;
}

// The frame of an upright plot: grid lines for y from 0 to at least `most`, the labels of the axes.
struct frame {
    frame(double most, std::string_view x_label, std::string_view y_label) {
        const double step = round_step(most, 4);
        y_end = step * std::max(1.0, std::ceil(most / step * 0.999));
        for (double y = 0; y <= y_end * 1.001; y += step) {
            svg += fmt::format(R"(<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)",
                               left, width - right, at(y), at(y));
            svg += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", left - 6,
                               at(y) + 4, short_number(y));
        }
        svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", width - right,
                           height - 4, html_escaped(x_label));
        svg += fmt::format(R"(<text x="4" y="{}">{}</text>)", height - 4, html_escaped(y_label));
    }
    [[nodiscard]] double at(double y) const {
        return height - bottom - (height - bottom - top) * y / y_end;
    }

    double y_end = 1;
    std::string svg;
};

std::string figure(std::string_view title, double tall, std::string_view inside,
                   std::string_view below = "") {
    const std::string name = html_escaped(title);
    return fmt::format(R"(<figure><h2>{}</h2><svg viewBox="0 0 {} {}" role="img" aria-label="{}">)"
                       R"({}</svg>{}</figure>)",
                       name, width, tall, name, inside, below);
}

bool like_a_number(std::string_view text) {
    return !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
}

}  // namespace

std::string html_escaped(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        switch (c) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            default:
                escaped += c;
        }
    }
    return escaped;
}

std::string_view page_style() {
    return style;
}

std::string html_page(std::string_view title, std::span<const std::string> parts) {
    const std::string name = html_escaped(title);
    std::string page = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>{}</title>\n<style>{}</style></head>\n<body><h1>{}</h1>\n",
        name, style, name);
    for (const std::string& part : parts)
        page += "<section>" + part + "</section>\n";
    return page + "</body></html>\n";
}

std::string html_table(std::span<const std::string> heading,
                       std::span<const std::vector<std::string>> rows) {
    const auto cell = [](std::string_view tag, std::string_view text, bool number) {
        return fmt::format("<{0}{1}>{2}</{0}>", tag, number ? R"( class="number")" : "",
                           html_escaped(text));
    };
    std::string table = "<table><thead><tr>";
    for (std::size_t i = 0; i < heading.size(); ++i) {
        const bool number = !rows.empty() && i < rows[0].size() && like_a_number(rows[0][i]);
        table += cell("th", heading[i], number);
    }
    table += "</tr></thead><tbody>";
    for (const std::vector<std::string>& row : rows) {
        table += "<tr>";
        for (const std::string& text : row)
            table += cell("td", text, like_a_number(text));
        table += "</tr>";
    }
    return table + "</tbody></table>";
}

std::string line_plot(std::string_view title, std::string_view x_label, std::string_view y_label,
                      std::span<const double> x, std::span<const plot_line> lines) {
    double most = 0;
    for (const plot_line& l : lines)
        most = std::max(most, largest(l.y));
    frame f(most, x_label, y_label);
    const double x_end = std::max(largest(x), 1e-9);
    const auto across = [&](double v) { return left + (width - left - right) * v / x_end; };
    const double step = round_step(x_end, 8);
    for (double v = 0; v <= x_end * 1.001; v += step) {
        f.svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", across(v),
                             height - bottom + 16, short_number(v));
    }
    std::string legend;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string colour = fmt::format("var(--series-{})", i % series_colours);
        std::string points;
        for (std::size_t k = 0; k < std::min(x.size(), lines[i].y.size()); ++k) {
            const double y = lines[i].y[k];
            if (!std::isfinite(y)) continue;
            points += fmt::format("{:.1f},{:.1f} ", across(x[k]), f.at(y));
        }
        f.svg += fmt::format(R"(<polyline fill="none" style="stroke:{}" stroke-width="1.8" )"
                             R"(stroke-linejoin="round" points="{}"/>)",
                             colour, points);
        legend += fmt::format(R"(<span style="color:{}">&#9632;</span> {} &nbsp; )", colour,
                              html_escaped(lines[i].name));
    }
    if (lines.size() > 1) legend = R"(<p class="faint">)" + legend + "</p>";
    return figure(title, height, f.svg, lines.size() > 1 ? legend : "");
}

std::string histogram_plot(std::string_view title, std::string_view x_label,
                           std::string_view y_label, std::span<const plot_bar> bars) {
    double most = 0;
    for (const plot_bar& b : bars)
        most = std::max(most, b.value);
    frame f(most, x_label, y_label);
    const double pitch =
        (width - left - right) / static_cast<double>(std::max<std::size_t>(1, bars.size()));
    // A label takes about 44 units: every so manieth bar has one.
    const auto every = static_cast<std::size_t>(std::ceil(44 / pitch));
    for (std::size_t i = 0; i < bars.size(); ++i) {
        const double from = left + pitch * static_cast<double>(i);
        f.svg += fmt::format(R"(<rect class="ours" x="{:.2f}" width="{:.2f}" y="{:.2f}" )"
                             R"(height="{:.2f}"><title>{}: {}</title></rect>)",
                             from, std::max(0.5, pitch - 1), f.at(bars[i].value),
                             height - bottom - f.at(bars[i].value), html_escaped(bars[i].label),
                             short_number(bars[i].value));
        if (i % every == 0) {
            f.svg +=
                fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)",
                            from + pitch / 2, height - bottom + 16, html_escaped(bars[i].label));
        }
    }
    return figure(title, height, f.svg);
}

std::string comparison_plot(std::string_view title, std::string_view unit,
                            std::span<const plot_bar> bars) {
    constexpr double row = 24;
    constexpr double name_width = 130;
    constexpr double value_width = 100;
    double most = 0;
    for (const plot_bar& b : bars)
        most = std::max(most, b.value);
    std::string svg;
    for (std::size_t i = 0; i < bars.size(); ++i) {
        const plot_bar& b = bars[i];
        const double y = row * static_cast<double>(i);
        const double length =
            most > 0 ? std::max(1.0, (width - name_width - value_width) * b.value / most) : 1;
        const std::string_view strong = b.ours ? R"( class="strong")" : "";
        svg += fmt::format(R"(<text{} x="{}" y="{}" text-anchor="end">{}</text>)", strong,
                           name_width - 8, y + 16, html_escaped(b.label));
        svg += fmt::format(R"(<rect class="{}" x="{}" y="{}" width="{:.1f}" height="{}" rx="2"/>)",
                           b.ours ? "ours" : "other", name_width, y + 3, length, row - 6);
        svg +=
            fmt::format(R"(<text{} x="{:.1f}" y="{}">{} {}</text>)", strong,
                        name_width + length + 6, y + 16, short_number(b.value), html_escaped(unit));
    }
    return figure(title, row * static_cast<double>(bars.size()), svg);
}

}  // namespace verge::tool
