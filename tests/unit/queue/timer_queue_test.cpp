// What timing_wheel and timer_heap promise alike.  The guarantees named in
// verge/queue/timing_wheel.hpp, and their variations.  Operation by operation:
// timer_queue_operation_test.cpp and timer_queue_callback_test.cpp.

#include "unit/queue/timer_queue_fixture.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace verge {
namespace {

TYPED_TEST_SUITE(TimerQueue, both_queues, queue_names);

// One timer: not a tick early, not a tick late, and the queue says so all the time.
template <class Queue>
void expect_fires_at(tick start, tick deadline) {
    Queue queue(start);
    typename Queue::timer_type timer(7);
    queue.arm_at(timer, deadline);
    ASSERT_EQ(timer.deadline(), deadline);
    for (const tick at : {start, start + (deadline - start) / 2, deadline - 1}) {
        if (at >= deadline) continue;
        ASSERT_EQ(fired_by(queue, at), names{}) << start << " to " << deadline << ", at " << at;
        ASSERT_EQ(queue.next_expiry(), deadline) << "from " << start << ", at " << at;
        ASSERT_EQ(queue.next_bound(), deadline) << "from " << start << ", at " << at;
    }
    ASSERT_EQ(fired_by(queue, deadline), names{7}) << start << " to " << deadline;
    ASSERT_FALSE(timer.armed());
    ASSERT_EQ(queue.next_expiry(), std::nullopt);
    ASSERT_EQ(fired_by(queue, never_tick), names{});
}

TYPED_TEST(TimerQueue, FiresAtItsTick) {
    for (const tick start : interesting_times) {
        for (unsigned level = 0; level < wheel_levels; ++level) {
            for (const tick around : {tick{0}, tick{1}, tick{2}}) {
                // At a distance of one slot of each level, less one, exactly, and one more.
                const tick distance = slot_span(level) + around - 1;
                if (distance > 0 && distance < never_tick - start) {
                    expect_fires_at<TypeParam>(start, start + distance);
                }
            }
        }
        expect_fires_at<TypeParam>(start, never_tick - 1);
    }
}

TYPED_TEST(TimerQueue, FiresAtItsTickFromEverySlot) {
    for (const tick start : interesting_times) {
        for (unsigned level = 0; level < wheel_levels; ++level) {
            const tick above = level == wheel_levels - 1 ? 0 : start & ~(slot_span(level + 1) - 1);
            for (tick slot = 0; slot < slots_on(level); ++slot) {
                // The last tick before the slot, its first and its second.
                for (const tick around : {tick{0}, tick{1}, tick{2}}) {
                    const tick deadline = above + slot * slot_span(level) + around - 1;
                    if (deadline <= start || deadline == never_tick) continue;
                    expect_fires_at<TypeParam>(start, deadline);
                }
            }
        }
    }
}

// Tick by tick, for longer than three levels span, with timers that cross each of the seams.
TYPED_TEST(TimerQueue, FiresAtItsTickInAQueueThatHasRunForLong) {
    constexpr std::array<tick, 9> periods = {1, 2, 63, 64, 65, 4095, 4096, 4097, 262'143};
    const tick start = 1'700'000'000'000'000'000;
    const tick end = start + slot_span(3) + slot_span(2);
    TypeParam queue(start);
    auto timers = make_timers<TypeParam>(periods.size());
    std::array<tick, periods.size()> fired{};
    const auto period_of = [&](const auto& timer) {
        return periods.at(static_cast<std::size_t>(timer.name));
    };
    for (auto& timer : timers)
        queue.arm_after(timer, period_of(timer));
    for (tick now = start + 1; now <= end; ++now) {
        queue.advance(now, [&](auto& timer) {
            ASSERT_EQ(timer.deadline(), now);
            ++fired.at(static_cast<std::size_t>(timer.name));
            queue.arm_after(timer, period_of(timer));
        });
        if (now % 4096 == 0) {
            ASSERT_EQ(queue.check(), nullptr);
        }
    }
    for (std::size_t i = 0; i < periods.size(); ++i) {
        EXPECT_EQ(fired.at(i), (end - start) / periods.at(i)) << "period " << periods.at(i);
    }
}

// The same in strides that wear out every level, up to the end of time.
TYPED_TEST(TimerQueue, FiresAtItsTickUpToTheEndOfTime) {
    for (unsigned level = 5; level < wheel_levels; ++level) {
        const tick stride = slot_span(level) + 12'345;
        TypeParam queue(slot_span(level) - 3);
        auto timers = make_timers<TypeParam>(2);
        std::size_t steps = 0;
        while (queue.now() < never_tick - 1 && ++steps < 2000) {
            const tick deadline = std::min(tick_after(queue.now(), stride), never_tick - 1);
            queue.arm_at(timers[0], deadline);
            queue.arm_at(timers[1], deadline - 1);
            if (deadline - 1 > queue.now()) {
                ASSERT_EQ(fired_by(queue, deadline - 2), names{});
                ASSERT_EQ(fired_by(queue, deadline - 1), names{1});
                ASSERT_EQ(fired_by(queue, deadline), names{0});
            } else {
                ASSERT_EQ(fired_by(queue, deadline), (names{1, 0}));
            }
        }
    }
}

TYPED_TEST(TimerQueue, KeepsDeadlineOrder) {
    auto timers = make_timers<TypeParam>(1000);
    for (unsigned seed = 0; seed < 10; ++seed) {
        TypeParam queue(seed * 1'000'003);
        const names order = arm_scattered(queue, timers, seed);
        EXPECT_EQ(fired_by(queue, never_tick), order) << "seed " << seed;
    }
    for (const std::size_t budget : {1U, 2U, 3U, 7U, 64U, 999U, 1000U, 1001U}) {
        TypeParam queue(5);
        const names order = arm_scattered(queue, timers, 11);
        names fired;
        for (;;) {
            const names some = fired_by(queue, never_tick, budget);
            EXPECT_LE(some.size(), budget);
            if (some.empty()) break;
            fired.insert(fired.end(), some.begin(), some.end());
            ASSERT_EQ(queue.size(), order.size() - fired.size());
        }
        EXPECT_EQ(fired, order) << "budget " << budget;
    }
}

// Time goes on between the pieces, by strides that stop inside slots of every level.
TYPED_TEST(TimerQueue, KeepsDeadlineOrderInPieces) {
    auto timers = make_timers<TypeParam>(1000);
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937_64 random(seed);
        TypeParam queue(random() >> 40);
        const names order = arm_scattered(queue, timers, seed);
        names fired;
        while (!queue.empty()) {
            const tick now = tick_after(queue.now(), random() >> (random() % 64));
            const std::size_t budget = random() % 2 == 0 ? no_budget : random() % 20;
            const names some = fired_by(queue, now, budget);
            fired.insert(fired.end(), some.begin(), some.end());
            const auto next = queue.next_expiry();
            ASSERT_EQ(queue.next_bound(), next) << "nothing has been cancelled";
            if (next) {
                const auto& coming = timers[static_cast<std::size_t>(order[fired.size()])];
                ASSERT_EQ(*next, coming.deadline());
            }
        }
        EXPECT_EQ(fired, order) << "seed " << seed;
    }
}

// Armed for one tick from further and further near, each time from another level, among others
// that keep the slots out of order.
TYPED_TEST(TimerQueue, KeepsEqualDeadlinesInOrderOfArmingAcrossLevels) {
    for (const bool disturbed : {false, true}) {
        for (const tick deadline :
             {slot_span(6), slot_span(6) + 1, 3 * slot_span(6) - 1, 5 * slot_span(6) + 4242}) {
            TypeParam queue(0);
            auto timers = make_timers<TypeParam>(8);
            auto others = make_timers<TypeParam>(16);
            names order;
            for (int name = 0; name < 8; ++name) {
                if (name > 0) {
                    const tick left = slot_span(static_cast<unsigned>(7 - name)) / 2;
                    ASSERT_EQ(fired_by(queue, deadline - std::max<tick>(left, 1)), names{});
                }
                queue.arm_at(timers[static_cast<std::size_t>(name)], deadline);
                order.push_back(name);
                if (!disturbed) continue;
                queue.arm_at(others[static_cast<std::size_t>(2 * name)], deadline + 2);
                queue.arm_at(others[static_cast<std::size_t>(2 * name + 1)], deadline + 1);
            }
            EXPECT_EQ(fired_by(queue, deadline), order) << "deadline " << deadline;
        }
    }
}

// Four timers in one slot of the wheel, one of them cancelled or none, then two more, also after
// the wheel's time has come into that slot: with each of four deadlines, in all combinations.
TYPED_TEST(TimerQueue, KeepsDeadlineOrderInEverySmallCrowd) {
    constexpr tick slot = 3 * slot_span(1);
    auto timers = make_timers<TypeParam>(6);
    for (unsigned program = 0; program < 4 * 4 * 4 * 4 * 5 * 2 * 4 * 4; ++program) {
        unsigned rest = program;
        const auto choose = [&](unsigned from) {
            const unsigned chosen = rest % from;
            rest /= from;
            return chosen;
        };
        TypeParam queue(0);
        for (const std::size_t i : {0U, 1U, 2U, 3U})
            queue.arm_at(timers[i], slot + 1 + choose(4));
        const unsigned victim = choose(5);
        if (victim < 4) queue.cancel(timers[victim]);
        if (choose(2) == 1) queue.advance(slot, [](auto&) { ADD_FAILURE(); });
        for (const std::size_t i : {4U, 5U})
            queue.arm_at(timers[i], slot + 1 + choose(4));

        names order;
        for (int name = 0; name < 6; ++name) {
            if (name != static_cast<int>(victim) || victim == 4) order.push_back(name);
        }
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
            return timers[static_cast<std::size_t>(a)].deadline() <
                   timers[static_cast<std::size_t>(b)].deadline();
        });
        names fired;
        queue.advance(slot + 4, [&](auto& timer) { fired.push_back(timer.name); });
        ASSERT_EQ(fired, order) << "program " << program;
    }
}

TYPED_TEST(TimerQueue, PutsARearmedTimerBehindItsEquals) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(4);
    for (auto& timer : timers)
        queue.arm_at(timer, 5000);
    queue.arm_at(timers[0], 5000);  // the first
    queue.arm_at(timers[2], 5000);  // one in the middle
    queue.arm_at(timers[2], 5000);  // the last
    EXPECT_EQ(queue.size(), 4U);
    EXPECT_EQ(fired_by(queue, 5000), (names{1, 3, 0, 2}));
}

TYPED_TEST(TimerQueue, PastDeadlineCountsAsNow) {
    TypeParam queue(100);
    auto timers = make_timers<TypeParam>(5);
    queue.arm_at(timers[0], 101);
    queue.arm_at(timers[1], 100);
    queue.arm_at(timers[2], 0);
    queue.arm_after(timers[3], 0);
    queue.arm_at(timers[4], 99);
    for (const std::size_t past : {1U, 2U, 3U, 4U}) {
        EXPECT_TRUE(timers[past].armed());
        EXPECT_EQ(timers[past].deadline(), 100U);
    }
    EXPECT_EQ(queue.next_expiry(), 100U);
    EXPECT_EQ(queue.next_bound(), 100U);
    EXPECT_EQ(fired_by(queue, 100), (names{1, 2, 3, 4}));
    EXPECT_EQ(queue.next_expiry(), 101U);

    // Time that goes on before they fire does not change their turn.
    queue.arm_at(timers[1], 50);
    queue.arm_at(timers[2], 102);
    EXPECT_EQ(fired_by(queue, 200), (names{1, 0, 2}));
}

// An advance that ran out of budget has told the time: what comes later is later.
TYPED_TEST(TimerQueue, PastDeadlineCountsAsNowBehindWhatABudgetLeft) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(8);
    queue.arm_at(timers[0], 10);
    queue.arm_at(timers[1], 10);
    queue.arm_at(timers[2], 2000);
    queue.arm_at(timers[3], 5000);
    queue.arm_at(timers[4], 5001);
    EXPECT_EQ(fired_by(queue, 5000, 1), names{0});
    EXPECT_EQ(queue.now(), 5000U);
    EXPECT_EQ(queue.next_expiry(), 10U);
    queue.arm_at(timers[5], 10);
    queue.arm_after(timers[6], 0);
    EXPECT_EQ(timers[5].deadline(), 5000U);
    EXPECT_EQ(queue.check(), nullptr);
    EXPECT_EQ(fired_by(queue, 0, 2), (names{1, 2}));
    queue.arm_at(timers[7], 4999);
    EXPECT_EQ(fired_by(queue, 6000), (names{3, 5, 6, 7, 4}));
}

// The same when what is left is due at this very tick.
TYPED_TEST(TimerQueue, PastDeadlineCountsAsNowBehindWhatABudgetLeftOfThisTick) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(7);
    for (const std::size_t i : {0U, 1U, 2U})
        queue.arm_at(timers[i], 50);
    EXPECT_EQ(fired_by(queue, 50, 1), names{0});
    queue.arm_at(timers[3], 7);
    queue.arm_at(timers[4], 55);
    EXPECT_EQ(queue.next_expiry(), 50U);
    EXPECT_EQ(fired_by(queue, 60, 1), names{1});
    queue.arm_at(timers[5], 52);
    EXPECT_EQ(timers[5].deadline(), 60U);
    queue.arm_at(timers[6], 61);
    EXPECT_EQ(fired_by(queue, 60), (names{2, 3, 4, 5}));
    EXPECT_EQ(fired_by(queue, 61), names{6});
}

// A far timer keeps the wheel's position behind; what is due now does not wait for it.
TYPED_TEST(TimerQueue, PastDeadlineCountsAsNowInFrontOfAFarTimer) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(6);
    queue.arm_at(timers[0], 3 * slot_span(4) + 77'777);
    EXPECT_EQ(fired_by(queue, 3 * slot_span(4) + 100), names{});
    queue.arm_after(timers[1], 0);
    queue.arm_after(timers[2], 0);
    queue.arm_after(timers[3], 1);
    EXPECT_EQ(fired_by(queue, queue.now(), 1, [&](auto&) { queue.arm_after(timers[4], 0); }),
              names{1});
    queue.arm_after(timers[5], 0);
    EXPECT_EQ(fired_by(queue, queue.now()), (names{2, 4, 5}));
    EXPECT_EQ(fired_by(queue, never_tick), (names{3, 0}));
}

TYPED_TEST(TimerQueue, RearmInCallbackWaitsForTheNextAdvance) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(3);
    queue.arm_at(timers[0], 10);
    queue.arm_at(timers[1], 20);
    const auto again = [&](auto& timer) {
        queue.arm_after(timer, 0);
        EXPECT_EQ(timer.deadline(), 30U);
    };
    EXPECT_EQ(fired_by(queue, 30, no_budget, again), (names{0, 1}));
    EXPECT_EQ(queue.next_expiry(), 30U);
    queue.arm_at(timers[2], 15);
    EXPECT_EQ(fired_by(queue, 30, no_budget, again), (names{0, 1, 2}));
    EXPECT_EQ(fired_by(queue, 30), (names{0, 1, 2}));
    EXPECT_TRUE(queue.empty());

    // A deadline that lies between then and now is as much in the past.
    queue.arm_at(timers[0], 40);
    const auto soon = [&](auto& timer) { queue.arm_at(timer, 50); };
    EXPECT_EQ(fired_by(queue, 60, no_budget, soon), names{0});
    EXPECT_EQ(timers[0].deadline(), 60U);
}

// With a budget: what a callback arms for now comes after all that is due, in whatever pieces.
TYPED_TEST(TimerQueue, RearmInCallbackWaitsForWhatABudgetLeft) {
    for (std::size_t budget = 1; budget <= 6; ++budget) {
        TypeParam queue(0);
        auto timers = make_timers<TypeParam>(5);
        for (const std::size_t i : {0U, 1U, 2U, 3U, 4U})
            queue.arm_at(timers[i], 10 + i / 2 * 500);
        names fired;
        for (int round = 0; fired.size() < 10; ++round) {
            ASSERT_LT(round, 20);
            const names some = fired_by(queue, 5000, std::min(budget, 10 - fired.size()),
                                        [&](auto& timer) { queue.arm_at(timer, 1); });
            fired.insert(fired.end(), some.begin(), some.end());
        }
        EXPECT_EQ(fired, (names{0, 1, 2, 3, 4, 0, 1, 2, 3, 4})) << "budget " << budget;
    }
}

TYPED_TEST(TimerQueue, TimeGoingBackwardsIsIgnored) {
    TypeParam queue(100);
    auto timers = make_timers<TypeParam>(3);
    EXPECT_EQ(fired_by(queue, 50), names{});
    EXPECT_EQ(queue.now(), 100U);
    queue.arm_at(timers[0], 70);
    queue.arm_after(timers[1], 10);
    EXPECT_EQ(timers[1].deadline(), 110U);
    EXPECT_EQ(fired_by(queue, 0), names{0});
    EXPECT_EQ(queue.now(), 100U);
    EXPECT_EQ(fired_by(queue, 109), names{});
    EXPECT_EQ(fired_by(queue, 100), names{});
    EXPECT_EQ(queue.now(), 109U);
    queue.arm_at(timers[2], 110);
    EXPECT_EQ(fired_by(queue, 110, 1), names{1});
    EXPECT_EQ(fired_by(queue, 1), names{2}) << "what a budget left is due all the same";
}

TYPED_TEST(TimerQueue, ANegativeDelayIsNone) {
    TypeParam queue(100);
    auto timers = make_timers<TypeParam>(7);
    queue.arm_after(timers[0], -5);
    queue.arm_after(timers[1], std::int8_t{-128});
    queue.arm_after(timers[2], std::numeric_limits<std::int64_t>::min());
    queue.arm_after(timers[3], 0);
    queue.arm_after(timers[4], std::int16_t{7});
    queue.arm_after(timers[5], 8U);
    queue.arm_after(timers[6], std::numeric_limits<std::int64_t>::max());
    for (const std::size_t i : {0U, 1U, 2U, 3U})
        EXPECT_EQ(timers[i].deadline(), 100U);
    EXPECT_EQ(timers[6].deadline(), 100 + (never_tick >> 1));
    EXPECT_EQ(fired_by(queue, 100), (names{0, 1, 2, 3}));
    EXPECT_EQ(fired_by(queue, 107), names{4});
    EXPECT_EQ(fired_by(queue, 108), names{5});

    TypeParam late(never_tick - 10);
    late.arm_after(timers[0], 10);
    EXPECT_EQ(timers[0].deadline(), never_tick) << "a sum that overflows is never";
    late.arm_after(timers[0], -10);
    EXPECT_EQ(timers[0].deadline(), never_tick - 10);
}

TYPED_TEST(TimerQueue, NeverNeverFires) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(3);
    queue.arm_at(timers[0], never_tick);
    queue.arm_after(timers[1], never_tick);
    EXPECT_TRUE(timers[0].armed());
    EXPECT_EQ(timers[0].deadline(), never_tick);
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(queue.next_expiry(), std::nullopt);
    EXPECT_EQ(queue.next_bound(), std::nullopt);

    queue.arm_at(timers[2], never_tick - 1);
    EXPECT_EQ(queue.next_expiry(), never_tick - 1);
    EXPECT_EQ(fired_by(queue, never_tick - 2), names{});
    EXPECT_EQ(fired_by(queue, never_tick), names{2}) << "2^64 - 2 is the last tick";
    EXPECT_EQ(queue.now(), never_tick - 1);
    EXPECT_EQ(queue.next_expiry(), std::nullopt);
    EXPECT_EQ(fired_by(queue, never_tick), names{});

    EXPECT_TRUE(queue.cancel(timers[0]));
    queue.arm_at(timers[1], 5);  // the end of time is now
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_EQ(fired_by(queue, never_tick), names{1});
    queue.arm_at(timers[1], 5);
    queue.arm_at(timers[1], never_tick);
    EXPECT_EQ(fired_by(queue, never_tick), names{});
    EXPECT_TRUE(timers[1].armed());
}

TYPED_TEST(TimerQueue, MayStartAtTheEndOfTime) {
    for (const tick start : {never_tick - 1, never_tick}) {
        TypeParam queue(start);
        auto timers = make_timers<TypeParam>(3);
        EXPECT_EQ(queue.now(), never_tick - 1);
        queue.arm_after(timers[0], 0);
        queue.arm_after(timers[1], 1);
        queue.arm_at(timers[2], 0);
        EXPECT_EQ(timers[1].deadline(), never_tick);
        EXPECT_EQ(fired_by(queue, 0), (names{0, 2}));
        EXPECT_EQ(queue.size(), 1U);
    }
}

// Each kind of thing once; timer_queue_callback_test.cpp takes them one by one.
TYPED_TEST(TimerQueue, CallbackMayDoAnything) {
    using timer = typename TypeParam::timer_type;
    auto queue = std::make_unique<TypeParam>(0);
    auto timers = make_timers<TypeParam>(12);
    std::vector<std::unique_ptr<timer>> doomed;
    for (int name = 20; name < 24; ++name)
        doomed.push_back(std::make_unique<timer>(name));
    for (auto& t : timers)
        queue->arm_at(t, 10 + static_cast<tick>(t.name) * 100);
    for (auto& t : doomed)
        queue->arm_at(*t, 510);

    names fired;
    const std::size_t count = queue->advance(2000, [&](timer& t) {
        const int name = t.name;
        fired.push_back(name);
        if (name == 0) queue->arm_at(timers[0], 3000);       // re-arms itself
        if (name == 1) queue->cancel(timers[1]);             // cancels itself
        if (name == 2) queue->cancel(timers[3]);             // and another
        if (name == 4) doomed[1].reset();                    // destroys one to come
        if (name == 5) doomed[0].reset();                    // one of its own tick
        if (name == 22) doomed[2].reset();                   // and itself
        if (name == 6) queue->advance(9000, [](timer&) {});  // to no effect
        if (name == 7) queue->clear(), queue->arm_at(timers[8], 0);
        EXPECT_EQ(queue->check(), nullptr);
    });
    EXPECT_EQ(fired, (names{0, 1, 2, 4, 5, 22, 23, 6, 7}));
    EXPECT_EQ(count, fired.size());
    EXPECT_EQ(queue->now(), 2000U);
    EXPECT_FALSE(timers[0].armed());

    queue->arm_at(timers[9], 2001);
    const auto destroy = [&](timer& t) {
        EXPECT_EQ(t.name, 8);
        queue.reset();
    };
    EXPECT_EQ(queue->advance(3000, destroy), 1U);
    EXPECT_FALSE(timers[9].armed());
}

TYPED_TEST(TimerQueue, SurvivesAThrowingCallback) {
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(7);
    for (const std::size_t i : {0U, 1U, 2U, 3U, 4U})
        queue.arm_at(timers[i], 100 + i / 2 * 1000);
    const auto third_throws = [&](auto& timer) {
        if (timer.name == 0) queue.arm_after(timers[5], 0);
        if (timer.name == 2) throw std::runtime_error("thrown by a callback");
    };
    EXPECT_THROW(queue.advance(5000, third_throws), std::runtime_error);
    EXPECT_EQ(queue.check(), nullptr);
    EXPECT_EQ(queue.now(), 5000U);
    EXPECT_FALSE(timers[2].armed());
    EXPECT_EQ(queue.size(), 3U);
    EXPECT_EQ(queue.next_expiry(), 1100U);
    queue.arm_at(timers[6], 0);
    EXPECT_EQ(fired_by(queue, 5000), (names{3, 4, 5, 6}));
    EXPECT_TRUE(queue.empty());

    queue.arm_after(timers[2], 10);
    EXPECT_THROW(queue.advance(6000, third_throws), std::runtime_error) << "the last that is due";
    EXPECT_EQ(queue.check(), nullptr);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(fired_by(queue, 6000), names{});
}

TYPED_TEST(TimerQueue, DestroyedTimerIsCancelled) {
    using timer = typename TypeParam::timer_type;
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(3);
    {
        timer near(1);
        timer far(2);
        timer never(3);
        timer due(4);
        queue.arm_at(timers[0], 5);
        queue.arm_at(near, 5);
        queue.arm_at(timers[1], 5);
        queue.arm_at(far, 5000);
        queue.arm_at(never, never_tick);
        queue.arm_at(due, 0);
        EXPECT_EQ(queue.size(), 6U);
    }
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_EQ(queue.check(), nullptr);
    EXPECT_EQ(queue.next_expiry(), 5U);
    EXPECT_EQ(fired_by(queue, never_tick), (names{0, 1}));

    {
        TypeParam short_lived(0);
        short_lived.arm_at(timers[0], 0);
        short_lived.arm_at(timers[1], 5000);
        short_lived.arm_at(timers[2], never_tick);
    }
    for (const auto& survivor : timers)
        EXPECT_FALSE(survivor.armed());
}

// Any of these would take years if time were walked, whatever the machine.
TYPED_TEST(TimerQueue, AdvanceOverAnySpanIsCheap) {
    for (const tick day : {day_of_ms, day_of_ns}) {
        TypeParam queue(12'345);
        auto timers = make_timers<TypeParam>(100);
        for (auto& timer : timers) {
            queue.arm_after(timer, day / 100 * (static_cast<tick>(timer.name) + 1));
        }
        names in_order(100);
        std::iota(in_order.begin(), in_order.end(), 0);
        EXPECT_EQ(fired_by(queue, queue.now() + day), in_order);
    }
    TypeParam queue(0);
    auto timers = make_timers<TypeParam>(1);
    EXPECT_EQ(fired_by(queue, tick{1} << 62), names{}) << "empty";
    queue.arm_at(timers[0], never_tick - 1);
    EXPECT_EQ(fired_by(queue, tick{1} << 63), names{}) << "with a timer that is not due";
    EXPECT_EQ(fired_by(queue, never_tick), names{0});
}

}  // namespace
}  // namespace verge
