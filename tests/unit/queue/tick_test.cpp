#include <verge/queue/tick.hpp>

#include <bit>

#include <gtest/gtest.h>

namespace verge {
namespace {

// By definition: the most trailing zeros, and 0 has them all.
tick roundest_by_search(tick earliest, tick latest) {
    tick best = earliest;
    for (tick candidate = earliest; candidate <= latest; ++candidate) {
        if (std::countr_zero(candidate) > std::countr_zero(best)) best = candidate;
    }
    return best;
}

TEST(RoundestTick, IsTheRoundestOfEverySmallRange) {
    for (tick earliest = 0; earliest <= 130; ++earliest) {
        for (tick latest = earliest; latest <= 260; ++latest) {
            ASSERT_EQ(roundest_tick(earliest, latest), roundest_by_search(earliest, latest))
                << earliest << " to " << latest;
        }
    }
}

TEST(RoundestTick, IsTheRoundestOfRangesNearEverySeam) {
    for (unsigned bit = 9; bit < 64; ++bit) {
        const tick seam = tick{1} << bit;
        for (tick below = 0; below < 20; ++below) {
            for (tick above = 0; above < 20; ++above) {
                ASSERT_EQ(roundest_tick(seam - below, seam + above), seam);
                const tick earliest = seam + 1;
                ASSERT_EQ(roundest_tick(earliest, earliest + above),
                          roundest_by_search(earliest, earliest + above));
                ASSERT_EQ(roundest_tick(seam - 21, seam - 1 - below),
                          roundest_by_search(seam - 21, seam - 1 - below));
            }
        }
    }
}

TEST(RoundestTick, OfAnEmptyRangeIsItsStart) {
    EXPECT_EQ(roundest_tick(7, 6), 7U);
    EXPECT_EQ(roundest_tick(7, 0), 7U);
    EXPECT_EQ(roundest_tick(never_tick, 0), never_tick);
}

TEST(RoundestTick, ReachesBothEndsOfTime) {
    EXPECT_EQ(roundest_tick(0, never_tick), 0U);
    EXPECT_EQ(roundest_tick(1, never_tick), tick{1} << 63);
    EXPECT_EQ(roundest_tick((tick{1} << 63) + 1, never_tick), tick{3} << 62);
    EXPECT_EQ(roundest_tick(never_tick - 2, never_tick), never_tick - 1);
    EXPECT_EQ(roundest_tick(never_tick - 1, never_tick), never_tick - 1);
    EXPECT_EQ(roundest_tick(never_tick, never_tick), never_tick);
    static_assert(roundest_tick(1000, 1100) == 1024);
}

TEST(TickAfter, AddsAndStopsAtNever) {
    EXPECT_EQ(tick_after(0, 0), 0U);
    EXPECT_EQ(tick_after(5, 7), 12U);
    EXPECT_EQ(tick_after(5, never_tick - 6), never_tick - 1);
    EXPECT_EQ(tick_after(5, never_tick - 5), never_tick);
    EXPECT_EQ(tick_after(5, never_tick - 4), never_tick);
    EXPECT_EQ(tick_after(0, never_tick), never_tick);
    EXPECT_EQ(tick_after(never_tick, never_tick), never_tick);
    EXPECT_EQ(tick_after(never_tick, 0), never_tick);
    static_assert(tick_after(never_tick - 1, 1) == never_tick);
}

}  // namespace
}  // namespace verge
