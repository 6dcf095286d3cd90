#include <verge/base/stats.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

struct example_stats {
    std::uint64_t fired = 3;
    std::uint64_t armed = 2;
    histogram_snapshot lateness;

    template <class Visitor>
    void visit(Visitor&& v) const {
        v("fired", stat_kind::counter, fired, "timers that ran");
        v("armed", stat_kind::gauge, armed, "timers that wait");
        visit_histogram(v, "lateness", lateness, "nanoseconds from deadline to callback");
    }
};
struct has_no_visit {};
struct visits_too_little {
    void visit(void (*)(std::string_view)) const;
};
struct only_moves {
    only_moves(only_moves&&) = default;
    template <class Visitor>
    void visit(Visitor&&) const;
};

static_assert(stats_snapshot<example_stats>);
static_assert(!stats_snapshot<has_no_visit>);
static_assert(!stats_snapshot<visits_too_little>);
static_assert(!stats_snapshot<only_moves>, "a snapshot is a value");
static_assert(!stats_snapshot<int>);

using row = std::tuple<std::string, stat_kind, std::uint64_t, std::string>;

template <stats_snapshot Stats>
std::vector<row> rows_of(const Stats& stats) {
    std::vector<row> rows;
    stats.visit([&](std::string_view name, stat_kind kind, std::uint64_t value,
                    std::string_view help) { rows.emplace_back(name, kind, value, help); });
    return rows;
}

TEST(Stats, AVisitTellsNameKindValueAndHelp) {
    const std::vector<row> rows = rows_of(example_stats{});
    ASSERT_GE(rows.size(), 2u);
    EXPECT_EQ(rows[0], row("fired", stat_kind::counter, 3, "timers that ran"));
    EXPECT_EQ(rows[1], row("armed", stat_kind::gauge, 2, "timers that wait"));
}

TEST(Stats, AHistogramIsToldAsPercentilesMaxAndCount) {
    histogram h;
    for (std::uint64_t v = 1; v <= 100; ++v)
        h.record(v, 10);
    h.record(120, 2);
    h.record(125);
    example_stats stats;
    stats.lateness = h.snapshot();
    const std::string help = "nanoseconds from deadline to callback";
    std::vector<row> rows = rows_of(stats);
    rows.erase(rows.begin(), rows.begin() + 2);
    EXPECT_EQ(rows, (std::vector<row>{
                        {"lateness_p50", stat_kind::gauge, 51, help},
                        {"lateness_p90", stat_kind::gauge, 91, help},
                        {"lateness_p99", stat_kind::gauge, 100, help},
                        {"lateness_p999", stat_kind::gauge, 120, help},
                        {"lateness_max", stat_kind::gauge, 125, help},
                        {"lateness_count", stat_kind::counter, 1003, help},
                    }));
}

TEST(Stats, AnEmptyHistogramTellsTheSameNames) {
    histogram h;
    h.record(7);
    example_stats full;
    full.lateness = h.snapshot();
    const std::vector<row> with = rows_of(full);
    const std::vector<row> without = rows_of(example_stats{});
    ASSERT_EQ(with.size(), without.size());
    for (std::size_t i = 0; i < with.size(); ++i) {
        EXPECT_EQ(std::get<0>(with[i]), std::get<0>(without[i]));
        EXPECT_EQ(std::get<1>(with[i]), std::get<1>(without[i]));
    }
    EXPECT_EQ(std::get<2>(without.back()), 0u);
}

TEST(Stats, AVisitorMayKeepStateAndThrow) {
    int seen = 0;
    auto visitor = [seen = &seen](auto&&...) {
        if (++*seen == 4) throw std::runtime_error("enough");
    };
    EXPECT_THROW(example_stats{}.visit(visitor), std::runtime_error);
    EXPECT_EQ(seen, 4);
}

}  // namespace
}  // namespace verge
