#include "html.hpp"

#include "json.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace verge::tool {
namespace {

std::size_t count(std::string_view text, std::string_view what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string_view::npos;
         at = text.find(what, at + 1))
        ++found;
    return found;
}

TEST(Html, EscapesWhatWouldBeMarkup) {
    EXPECT_EQ(html_escaped(R"(<a href="x">&</a>)"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
    const std::vector<std::string> heading{"<b>"};
    const std::vector<std::vector<std::string>> rows{{"<i>"}};
    const std::string table = html_table(heading, rows);
    EXPECT_EQ(table.find("<b>"), std::string::npos);
    EXPECT_EQ(table.find("<i>"), std::string::npos);
}

TEST(Html, APageIsWholeAndAsksForNothing) {
    const std::vector<std::string> parts{"<p>one</p>", "<p>two</p>"};
    const std::string page = html_page("A & B", parts);
    EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
    EXPECT_NE(page.find("<title>A &amp; B</title>"), std::string::npos);
    EXPECT_EQ(count(page, "<section>"), 2U);
    EXPECT_EQ(page.find("http"), std::string::npos);
    EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
    EXPECT_NE(page.find("viewport"), std::string::npos);
}

TEST(Html, NumbersInATableAreSetRight) {
    const std::vector<std::string> heading{"name", "value"};
    const std::vector<std::vector<std::string>> rows{{"fired", "12"}, {"early", "0"}};
    const std::string table = html_table(heading, rows);
    EXPECT_EQ(count(table, "<td class=\"number\">"), 2U);
    EXPECT_EQ(count(table, "<th class=\"number\">"), 1U);
}

TEST(Plot, ALineGoesThroughItsPoints) {
    const std::vector<double> x{0, 5, 10};
    const std::vector<plot_line> one{{"calls", {0, 50, 100}}};
    const std::string plot = line_plot("Calls", "s", "calls", x, one);
    EXPECT_NE(plot.find("56.0,200.0 342.0,106.0 628.0,12.0"), std::string::npos) << plot;
    EXPECT_EQ(plot.find("&#9632;"), std::string::npos) << "one line needs no legend";
    const std::vector<plot_line> two{{"p50", {1, 2, 3}}, {"p99", {2, 3, 4}}};
    EXPECT_EQ(count(line_plot("Late", "s", "us", x, two), "&#9632;"), 2U);
}

TEST(Plot, WhatIsNoNumberIsLeftOut) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double inf = std::numeric_limits<double>::infinity();
    const std::vector<double> x{0, 1, 2};
    const std::vector<plot_line> lines{{"l", {nan, inf, 3}}};
    const std::string plot = line_plot("t", "x", "y", x, lines);
    EXPECT_EQ(plot.find("nan"), std::string::npos);
    EXPECT_EQ(plot.find("inf"), std::string::npos);
}

TEST(Plot, NothingToDrawIsAnEmptyFrame) {
    EXPECT_EQ(count(line_plot("t", "x", "y", {}, {}), "<svg"), 1U);
    EXPECT_EQ(count(histogram_plot("t", "x", "y", {}), "<rect"), 0U);
    EXPECT_EQ(count(comparison_plot("t", "ns", {}), "<rect"), 0U);
}

TEST(Plot, BarsAreAsLongAsTheirValues) {
    const std::vector<plot_bar> bars{{"verge", 10, true}, {"asio", 20, false}, {"none", 0, false}};
    const std::string plot = comparison_plot("t", "ns", bars);
    EXPECT_NE(plot.find(R"(class="ours" x="130" y="3" width="205.0")"), std::string::npos) << plot;
    EXPECT_NE(plot.find(R"(class="other" x="130" y="27" width="410.0")"), std::string::npos)
        << plot;
    EXPECT_EQ(count(plot, "<rect"), 3U);
}

TEST(Json, QuotesWhatMustBeQuoted) {
    EXPECT_EQ(json_quoted("a\"b\\c\n\x01"), R"("a\"b\\c\u000a\u0001")");
}

TEST(Json, WritesEveryKind) {
    json_object o;
    o.add("text", "x").add("yes", true).add("count", std::size_t{7}).add("below", -1);
    o.add("part", 0.5).add("list", json_array(std::vector<double>{1, 2.5}));
    o.add("inside", json_object().add("a", 1));
    EXPECT_EQ(o.text(), R"({"text":"x","yes":true,"count":7,"below":-1,"part":0.5,)"
                        R"("list":[1,2.5],"inside":{"a":1}})");
}

TEST(Json, WhatIsNoNumberIsNull) {
    EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "null");
    EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
    EXPECT_EQ(json_number(1e300), "1e+300");
}

}  // namespace
}  // namespace verge::tool
