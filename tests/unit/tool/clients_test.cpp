#include "clients.hpp"

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using verge::duration;
using verge::time_point;
using namespace verge::tool;

TEST(Pacer, KeepsTheRateWhateverTheSteps) {
    const time_point begin(1s);
    pacer pace(begin);
    std::uint64_t calls = 0;
    duration passed{};
    for (int i = 0; passed < 10s; ++i) {
        passed += 1ms + duration(i % 7 * 100'000);
        calls += pace.due(begin + passed, 333.3);
    }
    EXPECT_NEAR(static_cast<double>(calls), 333.3 * std::chrono::duration<double>(passed).count(),
                1);
}

TEST(Pacer, ForgivesWhatIsFarBehind) {
    const time_point begin(1s);
    pacer pace(begin);
    EXPECT_EQ(pace.due(begin + 1h, 1000), 50U);  // most_behind of it
    EXPECT_EQ(pace.due(begin + 1h + 10ms, 1000), 10U);
}

TEST(Pacer, IsNotDisturbedByATimeBefore) {
    const time_point begin(1s);
    pacer pace(begin);
    EXPECT_EQ(pace.due(begin - 1s, 1000), 0U);
    EXPECT_EQ(pace.due(begin + 10ms, 1000), 10U);
}

TEST(Pacer, StepsAreLongerIfLittleIsDue) {
    EXPECT_EQ(pacer::step(100'000), duration(1ms));
    EXPECT_EQ(pacer::step(800), duration(10ms));
    EXPECT_EQ(pacer::step(1), duration(20ms));
}

TEST(Throttle, FollowsWhatEnds) {
    const time_point begin(1s);
    throttle limit(begin);
    EXPECT_EQ(limit.most(begin, 0, 200ms), throttle::always);
    // 1000 ends in 20 ms, a second's share of 50,000.
    EXPECT_EQ(limit.most(begin + 20ms, 1000, 200ms), throttle::always + 1200);
    // It does not believe a shorter time.
    EXPECT_EQ(limit.most(begin + 21ms, 9000, 200ms), throttle::always + 1200);
}

TEST(Throttle, AllowsNoMoreThanEndInATimeOut) {
    const time_point begin(1s);
    throttle limit(begin);
    EXPECT_EQ(limit.most(begin + 20ms, 1000, 4ms), throttle::always + 204);
}

TEST(Throttle, ForgetsSlowly) {
    const time_point begin(1s);
    throttle limit(begin);
    std::uint64_t last = limit.most(begin + 20ms, 1000, 200ms);
    for (duration passed = 40ms; passed < 1s; passed += 20ms) {
        const std::uint64_t next = limit.most(begin + passed, 1000, 200ms);
        EXPECT_LE(next, last);
        EXPECT_GE(next - throttle::always, (last - throttle::always) / 2);
        last = next;
    }
    EXPECT_EQ(last, throttle::always);
}

TEST(FateSource, LosesFewAtFirstAndMoreAgain) {
    fate_source fates(1);
    int lost = 0;
    int lost_again = 0;
    duration latency{};
    for (int i = 0; i < 100'000; ++i) {
        const fate drawn = fates.next(1);
        lost += drawn.lost ? 1 : 0;
        latency += drawn.latency;
        EXPECT_GE(drawn.latency, 0s);
        EXPECT_LT(drawn.latency, 1s);
        lost_again += fates.next(2).lost ? 1 : 0;
    }
    EXPECT_NEAR(lost, 500, 150);
    EXPECT_NEAR(lost_again, 25'000, 1000);
    EXPECT_NEAR(std::chrono::duration<double>(latency / 100'000).count(), 0.005, 0.0002);
}

TEST(FateSource, SeedsDiffer) {
    EXPECT_NE(fate_source(1).next(1).latency, fate_source(2).next(1).latency);
    EXPECT_EQ(fate_source(1).next(1).latency, fate_source(1).next(1).latency);
}

TEST(Tally, SumsWhatThreadsCount) {
    tally counts(3, 1, 1);
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&counts] {
                for (int j = 0; j < 1000; ++j) {
                    counts.worker().begun.add();
                    if (j % 2 == 0) counts.worker().answered.add();
                }
            });
        }
    }
    counts.other().given_up.add();
    EXPECT_EQ(counts.total(&client_counts::begun), 3000U);
    EXPECT_EQ(counts.open(), 1499U);
    load_figures sum;
    counts.add_to(sum);
    EXPECT_EQ(sum.calls, 3000U);
    EXPECT_EQ(sum.answered, 1500U);
    EXPECT_EQ(sum.on_their_way, 1500U);
    EXPECT_EQ(counts.worker_busy().size(), 3U);  // the other thread is no worker
}

TEST(Tally, CountsEarlyTimeOuts) {
    tally counts(1, 0, 1);
    counts.worker().count_time_out(now() + 1h);
    counts.worker().count_time_out(now());
    load_figures sum;
    counts.add_to(sum);
    EXPECT_EQ(sum.timed_out, 2U);
    EXPECT_EQ(sum.early, 1U);
    EXPECT_EQ(sum.lateness.count(), 2U);
}

TEST(Tally, OneThreadMayCountForOneAfterAnother) {
    for (int i = 0; i < 3; ++i) {
        tally counts(1, 0, 1);  // each time at the same address, perhaps
        counts.worker().begun.add();
        counts.worker().begun.add();
        EXPECT_EQ(counts.total(&client_counts::begun), 2U);
    }
}

}  // namespace
