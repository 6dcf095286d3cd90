#include "unit/observe/prometheus_parser.hpp"
#include <verge/observe/prometheus.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

using test::parsed_prometheus;
using test::prometheus_metric;
using labels = std::map<std::string, std::string>;

struct shop_stats {
    std::uint64_t sold = 3;
    std::uint64_t waiting = 2;

    template <class Visitor>
    void visit(Visitor&& v) const {
        v("sold", stat_kind::counter, sold, "things sold");
        v("waiting", stat_kind::gauge, waiting, "people who wait");
    }
};

TEST(Prometheus, TheTextIsAsTheFormatHasIt) {
    prometheus_text page("shop");
    page.add(shop_stats{}, {{"town", "Ulm"}}).add(shop_stats{.sold = 5}, {{"town", "Bonn"}});
    EXPECT_EQ(page.text(),
              "# HELP shop_sold_total things sold\n"
              "# TYPE shop_sold_total counter\n"
              "shop_sold_total{town=\"Ulm\"} 3\n"
              "shop_sold_total{town=\"Bonn\"} 5\n"
              "# HELP shop_waiting people who wait\n"
              "# TYPE shop_waiting gauge\n"
              "shop_waiting{town=\"Ulm\"} 2\n"
              "shop_waiting{town=\"Bonn\"} 2\n");
    EXPECT_EQ(prometheus_text("shop").text(), "");
}

TEST(Prometheus, ACounterEndsInTotal) {
    prometheus_text page("");
    page.add_value("calls", stat_kind::counter, 1, "")
        .add_value("bytes_total", stat_kind::counter, 2, "")
        .add_value("total", stat_kind::gauge, 3, "");
    const auto metrics = parsed_prometheus(page.text());
    ASSERT_EQ(metrics.size(), 3u);
    EXPECT_EQ(metrics[0].name, "calls_total");
    EXPECT_EQ(metrics[1].name, "bytes_total");
    EXPECT_EQ(metrics[2].name, "total");
}

TEST(Prometheus, SnapshotsShareHelpAndType) {
    prometheus_text page("p");
    page.add(shop_stats{}, {{"n", "1"}});
    page.add_value("other", stat_kind::gauge, 1, "in between");
    page.add(shop_stats{.sold = 9}, {{"n", "2"}});
    page.add_value("waiting", stat_kind::counter, 7, "that is another metric");
    page.add_value("sold_total", stat_kind::gauge, 8, "its kind came first", {{"n", "3"}});
    const auto metrics = parsed_prometheus(page.text());  // throws if one stood twice
    ASSERT_EQ(metrics.size(), 4u);
    EXPECT_EQ(metrics[0].values.at({{"n", "1"}}), "3");
    EXPECT_EQ(metrics[0].values.at({{"n", "2"}}), "9");
    EXPECT_EQ(metrics[0].values.at({{"n", "3"}}), "8");
    EXPECT_EQ(metrics[0].type, "counter");
    EXPECT_EQ(metrics[0].help, "things sold");
    EXPECT_EQ(metrics[1].values.size(), 2u);
    EXPECT_EQ(metrics[3].name, "p_waiting_total");
}

TEST(Prometheus, NamesAreMadeValid) {
    const auto name_for = [](std::string_view prefix, std::string_view name) {
        prometheus_text page(prefix);
        page.add_value(name, stat_kind::gauge, 1, "");
        return parsed_prometheus(page.text()).at(0).name;
    };
    EXPECT_EQ(name_for("", "p99.9 late:ness"), "p99_9_late_ness");
    EXPECT_EQ(name_for("9", "lives"), "_9_lives");
    EXPECT_EQ(name_for("", "9lives"), "_9lives");
    EXPECT_EQ(name_for("", ""), "_");
    EXPECT_EQ(name_for("a", ""), "a_");
    EXPECT_EQ(name_for("\xc3\xa4", "{}\n\""), "_______");
}

TEST(Prometheus, LabelsAndHelpAreEscaped) {
    prometheus_text page("");
    page.add_value("a", stat_kind::gauge, 1, "a \"back\\slash\"\nand a line\twith a tab",
                   {{"path", "C:\\new \"x\"\n"}, {"leaf", "\xc3\xa9t\xc3\xa9 \xf0\x9f\x8d\x83"}});
    const auto metrics = parsed_prometheus(page.text());
    EXPECT_EQ(metrics.at(0).help, "a \"back\\slash\"\nand a line\twith a tab");
    EXPECT_EQ(
        metrics.at(0).values.begin()->first,
        (labels{{"path", "C:\\new \"x\"\n"}, {"leaf", "\xc3\xa9t\xc3\xa9 \xf0\x9f\x8d\x83"}}));
    EXPECT_NE(page.text().find("{leaf="), std::string::npos);
    EXPECT_NE(page.text().find("path=\"C:\\\\new \\\"x\\\"\\n\"}"), std::string::npos);
}

TEST(Prometheus, BytesThatAreNoUtf8AreReplaced) {
    const auto value_for = [](std::string_view value) {
        prometheus_text page("");
        page.add_value("a", stat_kind::gauge, 1, "", {{"l", value}});
        return parsed_prometheus(page.text()).at(0).values.begin()->first.at("l");
    };
    EXPECT_EQ(value_for("a\xff z"), "a? z");
    EXPECT_EQ(value_for("\xc0\xaf"), "??");            // longer than needed
    EXPECT_EQ(value_for("\xe0\x9f\xbf"), "???");       // the same
    EXPECT_EQ(value_for("\xed\xa0\x80"), "???");       // a surrogate
    EXPECT_EQ(value_for("\xf4\x90\x80\x80"), "????");  // beyond the last
    EXPECT_EQ(value_for("\xe2\x82"), "??");            // cut off
    EXPECT_EQ(value_for("\xe2\x82\xac"), "\xe2\x82\xac");
    EXPECT_EQ(value_for(std::string_view("a\0\r\x1f", 4)), "a???");
}

TEST(Prometheus, LabelNamesAreMadeValid) {
    prometheus_text page("");
    page.add_value("a", stat_kind::gauge, 1, "",
                   {{"__name__", "evil"}, {"", "e"}, {"1st", "one"}, {"a-b", "x"}});
    EXPECT_EQ(parsed_prometheus(page.text()).at(0).values.begin()->first,
              (labels{{"_name__", "evil"}, {"_", "e"}, {"_1st", "one"}, {"a_b", "x"}}));
}

TEST(Prometheus, LabelsAreASet) {
    prometheus_text page("");
    page.add_value("a", stat_kind::gauge, 1, "", {{"x", "1"}, {"y", "2"}, {"x", "3"}});
    page.add_value("a", stat_kind::gauge, 2, "", {{"y", "2"}, {"x", "1"}});
    const auto metrics = parsed_prometheus(page.text());
    ASSERT_EQ(metrics.at(0).values.size(), 1u);
    EXPECT_EQ(metrics[0].values.at({{"x", "1"}, {"y", "2"}}), "2");
}

TEST(Prometheus, ToldAgainIsReplaced) {
    prometheus_text page("");
    page.add(shop_stats{.sold = 1}).add(shop_stats{.sold = 2});
    EXPECT_EQ(parsed_prometheus(page.text()).at(0).values,
              (std::map<labels, std::string>{{{}, "2"}}));
}

TEST(Prometheus, IntegersAreExact) {
    prometheus_text page("");
    page.add(shop_stats{.sold = std::numeric_limits<std::uint64_t>::max()});
    page.add_value("least", stat_kind::gauge, std::numeric_limits<std::int64_t>::min(), "");
    const auto metrics = parsed_prometheus(page.text());
    EXPECT_EQ(metrics.at(0).values.at({}), "18446744073709551615");
    EXPECT_EQ(metrics.at(2).values.at({}), "-9223372036854775808");
}

TEST(Prometheus, NumbersThatAreNoIntegersReadBackTheSame) {
    using limits = std::numeric_limits<double>;
    for (const double value : {0.0, 0.1, -1.5, 1e300, 1.0 / 3, limits::max(), limits::lowest(),
                               limits::min(), limits::denorm_min()}) {
        prometheus_text page("");
        page.add_value("a", stat_kind::gauge, value, "");
        EXPECT_EQ(std::strtod(parsed_prometheus(page.text()).at(0).values.at({}).c_str(), nullptr),
                  value);
    }
    prometheus_text page("");
    page.add_value("a", stat_kind::gauge, limits::infinity(), "", {{"n", "1"}})
        .add_value("a", stat_kind::gauge, -limits::infinity(), "", {{"n", "2"}})
        .add_value("a", stat_kind::gauge, limits::quiet_NaN(), "", {{"n", "3"}});
    const auto values = parsed_prometheus(page.text()).at(0).values;
    EXPECT_EQ(values.at({{"n", "1"}}), "+Inf");
    EXPECT_EQ(values.at({{"n", "2"}}), "-Inf");
    EXPECT_EQ(values.at({{"n", "3"}}), "NaN");
}

TEST(Prometheus, AnyInputGivesValidText) {
    std::mt19937 random(7);
    const auto any_text = [&] {
        constexpr std::string_view chosen = "ab_:9 \\\"\n{}=,#\xc3\xa9\xff";
        std::string text;
        for (std::size_t size = random() % 6; size != 0; --size) {
            text += random() % 2 != 0 ? chosen[random() % chosen.size()]
                                      : static_cast<char>(random() % 256);
        }
        return text;
    };
    for (int round = 0; round < 1000; ++round) {
        const std::string prefix = any_text();
        prometheus_text page(prefix);
        std::string input = prefix;
        for (int n = 0; n < 8; ++n) {
            const std::string name = any_text(), help = any_text(), l1 = any_text(),
                              v1 = any_text(), l2 = any_text(), v2 = any_text();
            input += '|' + name + '|' + help + '|' + l1 + '|' + v1 + '|' + l2 + '|' + v2;
            page.add_value(name, random() % 2 != 0 ? stat_kind::counter : stat_kind::gauge, n, help,
                           {{l1, v1}, {l2, v2}});
        }
        ASSERT_NO_THROW(static_cast<void>(parsed_prometheus(page.text())))
            << ::testing::PrintToString(input) << '\n'
            << page.text();
    }
}

TEST(Prometheus, TheOracleRefusesWhatIsWrong) {
    const std::string head = "# HELP a x\n# TYPE a gauge\n";
    EXPECT_NO_THROW(static_cast<void>(parsed_prometheus(head + "a{b=\"c\",d=\"e\"} 1\na 2\n")));
    for (const std::string& wrong :
         {head, head + "a 1", head + "b 1\n", head + "a{} 1\n", head + "a{b=\"c\",b=\"d\"} 1\n",
          head + "a 1\na 2\n", head + "a x\n", head + "a{b=\"\\t\"} 1\n", head + "a{1=\"\"} 1\n",
          head + "a 1\n\n", head + "a 1\n" + head + "a 1\n", head + "a{b=\"c\"}  1\n",
          std::string("# HELP a x\n# TYPE a counter\na 1\n"), std::string("# TYPE a gauge\na 1\n"),
          std::string("# HELP a \\x\n# TYPE a gauge\na 1\n")}) {
        EXPECT_THROW(static_cast<void>(parsed_prometheus(wrong)), std::runtime_error) << wrong;
    }
}

}  // namespace
}  // namespace verge
