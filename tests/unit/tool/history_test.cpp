#include "history.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace {

using verge::tool::history;
using verge::tool::sample;

sample at(double seconds) {
    sample s;
    s.seconds = seconds;
    s.calls_per_second = 100;
    s.figures.worker_busy = {0.5};
    return s;
}

TEST(History, KeepsAllOfAShortRun) {
    history kept;
    EXPECT_TRUE(kept.empty());
    for (int i = 0; i < 100; ++i)
        kept.add(at(i));
    EXPECT_EQ(kept.samples().size(), 100U);
    EXPECT_EQ(kept.samples()[42].seconds, 42);
}

TEST(History, StaysBoundedAndInOrder) {
    history kept;
    for (int i = 0; i < 100'000; ++i) {
        kept.add(at(i));
        ASSERT_LE(kept.samples().size(), history::most);
        ASSERT_EQ(kept.last().seconds, i);
    }
    EXPECT_GE(kept.samples().size(), history::most / 2);
    EXPECT_TRUE(
        std::is_sorted(kept.samples().begin(), kept.samples().end(),
                       [](const sample& a, const sample& b) { return a.seconds < b.seconds; }));
    for (const sample& each : kept.samples())
        ASSERT_DOUBLE_EQ(each.calls_per_second, 100);
}

TEST(History, HidesNoSpike) {
    history kept;
    for (int i = 0; i < 10'000; ++i) {
        sample s = at(i);
        s.late_p99_us = i == 4321 ? 7000 : 1;
        kept.add(s);
    }
    double worst = 0;
    for (const sample& each : kept.samples())
        worst = std::max(worst, each.late_p99_us);
    EXPECT_EQ(worst, 7000);
}

TEST(History, OnlyTheLastHasItsWorkers) {
    history kept;
    for (int i = 0; i < 3000; ++i)
        kept.add(at(i));
    EXPECT_EQ(kept.last().figures.worker_busy.size(), 1U);
    for (const sample& each : kept.samples().first(kept.samples().size() - 1))
        ASSERT_TRUE(each.figures.worker_busy.empty());
}

}  // namespace
