// Each operation on its own, on both queues: cancel, arm_in_range, next_expiry, for_each and so on.

#include "unit/queue/timer_queue_fixture.hpp"

#include <algorithm>
#include <optional>

namespace verge {
namespace {

template <class Queue>
class TimerQueueOperation : public testing::Test {};

TYPED_TEST_SUITE(TimerQueueOperation, both_queues, queue_names);

TYPED_TEST(TimerQueueOperation, KnowsItsNextExpiry) {
    auto timers = make_timers<TypeParam>(300);
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937_64 random(seed);
        TypeParam queue(random() >> 20);
        arm_scattered(queue, timers, seed);
        if (seed % 2 == 1) fired_by(queue, tick_after(queue.now(), random() >> 30));
        // Cancels the next, or any, until none is left: each time the slot's least may change.
        while (!queue.empty()) {
            auto next = std::min_element(timers.begin(), timers.end(), [](auto& a, auto& b) {
                return a.armed() && (!b.armed() || a.deadline() < b.deadline());
            });
            ASSERT_EQ(queue.next_expiry(), next->deadline());
            ASSERT_TRUE(queue.next_bound().has_value());
            ASSERT_LE(*queue.next_bound(), next->deadline());
            auto& victim = random() % 2 == 0 ? *next : timers[random() % timers.size()];
            const bool was_armed = victim.armed();
            ASSERT_EQ(queue.cancel(victim), was_armed);
            ASSERT_EQ(queue.check(), nullptr);
        }
        EXPECT_EQ(queue.next_expiry(), std::nullopt);
        EXPECT_EQ(queue.next_bound(), std::nullopt);
    }
}

TYPED_TEST(TimerQueueOperation, CancelsHeadMiddleAndLast) {
    for (int victim = 0; victim < 5; ++victim) {
        for (const tick step : {0U, 1U, 7U}) {  // one list, a list a timer, one sorted list
            TypeParam queue(0);
            auto timers = make_timers<TypeParam>(5);
            names rest;
            for (auto& timer : timers) {
                queue.arm_at(timer, 200 + step * static_cast<tick>(timer.name));
                if (timer.name != victim) rest.push_back(timer.name);
            }
            EXPECT_TRUE(queue.cancel(timers[static_cast<std::size_t>(victim)]));
            EXPECT_FALSE(timers[static_cast<std::size_t>(victim)].armed());
            EXPECT_EQ(queue.check(), nullptr);
            EXPECT_EQ(fired_by(queue, 300), rest);
        }
    }
}

TYPED_TEST(TimerQueueOperation, CancellingTwiceOrUnarmedIsHarmless) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(2);
    EXPECT_FALSE(queue.cancel(timers[0]));
    queue.arm_at(timers[0], 5);
    queue.arm_at(timers[1], 5);
    EXPECT_TRUE(queue.cancel(timers[0]));
    EXPECT_FALSE(queue.cancel(timers[0]));
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_EQ(fired_by(queue, 5), names{1});
    EXPECT_FALSE(queue.cancel(timers[1])) << "it has fired";
    EXPECT_EQ(queue.check(), nullptr);
}

TYPED_TEST(TimerQueueOperation, CancelsWhatWaitsForTheNextAdvance) {
    TypeParam queue(100);
    auto timers = make_timers<TypeParam>(6);
    for (auto& timer : timers)
        queue.arm_at(timer, 0);
    for (const std::size_t i : {0U, 2U, 5U})
        EXPECT_TRUE(queue.cancel(timers[i]));
    EXPECT_EQ(queue.check(), nullptr);
    EXPECT_EQ(fired_by(queue, 100, 1), names{1});
    EXPECT_TRUE(queue.cancel(timers[3]));
    EXPECT_EQ(fired_by(queue, 100), names{4});
}

TYPED_TEST(TimerQueueOperation, LosesATimerThatIsArmedElsewhere) {
    TypeParam here(0);
    TypeParam there(1000);
    auto timers = make_timers<TypeParam>(3);
    here.arm_at(timers[0], 5000);
    here.arm_at(timers[1], 5000);
    here.arm_at(timers[2], 5000);
    EXPECT_FALSE(there.cancel(timers[1])) << "not its own";
    EXPECT_TRUE(timers[1].armed());
    there.arm_at(timers[1], 5);
    EXPECT_EQ(timers[1].deadline(), 1000U);
    EXPECT_EQ(here.size(), 2U);
    EXPECT_EQ(there.size(), 1U);
    EXPECT_FALSE(here.cancel(timers[1]));
    there.arm_in_range(timers[2], 4000, 6000);
    EXPECT_EQ(timers[2].deadline(), 4096U) << "armed elsewhere: nothing here to keep";
    EXPECT_EQ(here.check(), nullptr);
    EXPECT_EQ(fired_by(here, 5000), names{0});
    EXPECT_EQ(fired_by(there, 5000), (names{1, 2}));
}

TYPED_TEST(TimerQueueOperation, ArmsInARangeAtTheRoundestTick) {
    TypeParam queue(100);
    auto timers = make_timers<TypeParam>(1);
    const auto armed_for = [&](tick earliest, tick latest) {
        queue.cancel(timers[0]);
        queue.arm_in_range(timers[0], earliest, latest);
        EXPECT_TRUE(timers[0].armed());
        EXPECT_EQ(queue.check(), nullptr);
        return timers[0].deadline();
    };
    EXPECT_EQ(armed_for(1000, 1100), 1024U);
    EXPECT_EQ(armed_for(1025, 1100), 1088U);
    EXPECT_EQ(armed_for(1025, 1025), 1025U);
    EXPECT_EQ(armed_for(1025, 1000), 1025U) << "inverted: never early";
    EXPECT_EQ(armed_for(0, 50), 100U) << "all of it in the past";
    EXPECT_EQ(armed_for(0, 100), 100U);
    EXPECT_EQ(armed_for(0, 130), 128U) << "the past is no choice, though 0 is rounder";
    EXPECT_EQ(armed_for(50, never_tick), tick{1} << 63);
    EXPECT_EQ(armed_for(never_tick, never_tick), never_tick);
    EXPECT_EQ(armed_for(never_tick - 1, never_tick), never_tick - 1);
    EXPECT_EQ(armed_for(never_tick, 0), never_tick);
}

TYPED_TEST(TimerQueueOperation, KeepsATimerThatFitsTheRange) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(2);
    queue.arm_at(timers[0], 1001);
    queue.arm_at(timers[1], 1001);
    for (const tick slack : {tick{0}, tick{1}, tick{100}}) {
        queue.arm_in_range(timers[0], 1001 - slack, 1001 + slack);
        EXPECT_EQ(timers[0].deadline(), 1001U);
    }
    queue.arm_in_range(timers[0], 0, 1001);
    EXPECT_EQ(timers[0].deadline(), 1001U);
    EXPECT_EQ(fired_by(queue, 1001), (names{0, 1})) << "and its turn among equals";

    queue.arm_at(timers[0], 1005);
    queue.arm_in_range(timers[0], 1006, 1010);
    EXPECT_EQ(timers[0].deadline(), 1008U) << "a tick too early";
    queue.arm_in_range(timers[0], 1003, 1007);
    EXPECT_EQ(timers[0].deadline(), 1004U) << "a tick too late";
}

TYPED_TEST(TimerQueueOperation, ArmAfterStopsAtNever) {
    TypeParam queue(1000);
    auto timers = make_timers<TypeParam>(1);
    queue.arm_after(timers[0], never_tick - 1001);
    EXPECT_EQ(timers[0].deadline(), never_tick - 1);
    queue.arm_after(timers[0], never_tick - 1000);
    EXPECT_EQ(timers[0].deadline(), never_tick);
    queue.arm_after(timers[0], never_tick - 999);
    EXPECT_EQ(timers[0].deadline(), never_tick);
    queue.arm_after(timers[0], never_tick);
    EXPECT_EQ(timers[0].deadline(), never_tick);
    EXPECT_EQ(queue.next_expiry(), std::nullopt);
}

TYPED_TEST(TimerQueueOperation, ABudgetOfZeroOnlyTellsTheTime) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(2);
    queue.arm_at(timers[0], 10);
    EXPECT_EQ(fired_by(queue, 1000, 0), names{});
    EXPECT_EQ(queue.now(), 1000U);
    EXPECT_EQ(queue.next_expiry(), 10U);
    queue.arm_at(timers[1], 5);
    EXPECT_EQ(timers[1].deadline(), 1000U);
    EXPECT_EQ(fired_by(queue, 0), (names{0, 1}));
}

TYPED_TEST(TimerQueueOperation, VisitsEachArmedTimerOnce) {
    TypeParam queue(100);
    auto timers = make_timers<TypeParam>(9);
    const auto visited = [&] {
        names seen;
        queue.for_each([&](const typename TypeParam::timer_type& t) { seen.push_back(t.name); });
        std::sort(seen.begin(), seen.end());
        return seen;
    };
    EXPECT_EQ(visited(), names{});
    queue.arm_at(timers[0], 200);
    queue.arm_at(timers[1], 200);
    queue.arm_at(timers[2], 200);
    EXPECT_EQ(fired_by(queue, 200, 1), names{0});  // 1 and 2 are left over
    queue.arm_at(timers[3], 0);
    queue.arm_at(timers[4], never_tick);
    queue.arm_at(timers[5], 201);
    queue.arm_at(timers[6], slot_span(7));
    queue.arm_at(timers[7], never_tick - 1);
    queue.arm_at(timers[8], slot_span(7) + 1);
    EXPECT_EQ(visited(), (names{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(queue.size(), 8U);
    queue.cancel(timers[6]);
    EXPECT_EQ(visited(), (names{1, 2, 3, 4, 5, 7, 8}));
}

TYPED_TEST(TimerQueueOperation, ClearDisarmsAll) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(200);
    for (int round = 0; round < 3; ++round) {
        arm_scattered(queue, timers, 3);
        queue.arm_at(timers[0], never_tick);
        queue.arm_at(timers[1], 0);
        fired_by(queue, queue.now() + 5000, 3);
        queue.clear();
        EXPECT_TRUE(queue.empty());
        EXPECT_EQ(queue.size(), 0U);
        EXPECT_EQ(queue.check(), nullptr);
        EXPECT_EQ(queue.next_expiry(), std::nullopt);
        EXPECT_EQ(queue.next_bound(), std::nullopt);
        for (const auto& timer : timers)
            EXPECT_FALSE(timer.armed());
        EXPECT_EQ(fired_by(queue, queue.now()), names{});
    }
    const names order = arm_scattered(queue, timers, 4);
    EXPECT_EQ(fired_by(queue, never_tick), order) << "as good as new";
}

TYPED_TEST(TimerQueueOperation, GivesUpItsTimersOneByOne) {
    TypeParam queue(100);
    auto timers = make_timers<TypeParam>(200);
    EXPECT_EQ(queue.take_any(), nullptr);
    arm_scattered(queue, timers, 6);
    queue.arm_at(timers[0], never_tick);
    fired_by(queue, 5000, 3);
    queue.arm_at(timers[1], 0);
    std::size_t left = queue.size();
    while (auto* const timer = queue.take_any()) {
        EXPECT_FALSE(timer->armed());
        EXPECT_EQ(queue.size(), --left);
        ASSERT_EQ(queue.check(), nullptr);
    }
    EXPECT_EQ(left, 0U);
    EXPECT_EQ(queue.next_bound(), std::nullopt);
    for (const auto& timer : timers)
        EXPECT_FALSE(timer.armed());
}

}  // namespace
}  // namespace verge
