// What only the heap promises: keys of any kind, and what happens when memory runs out.

#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include "unit/queue/timer_queue_fixture.hpp"
#include <verge/queue/timer_heap.hpp>

#include <chrono>
#include <cstddef>
#include <limits>
#include <random>
#include <ratio>
#include <type_traits>

namespace verge {
namespace {

using namespace std::chrono_literals;

// Advances a heap of any key, and lists what fired.
template <class Heap>
names fired_until(Heap& heap, const typename Heap::key_type& now) {
    names fired;
    heap.advance(now, [&](typename Heap::timer_type& timer) { fired.push_back(timer.name); });
    EXPECT_EQ(heap.check(), nullptr);
    return fired;
}

// ---- seconds as double ----

using seconds_timer = named<heap_timer<double>>;
using seconds_heap = timer_heap<seconds_timer>;
static_assert(timer_queue<seconds_heap>);

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

TEST(TimerHeapOfDouble, KeepsDeadlineOrder) {
    seconds_heap heap(0.0);
    auto timers = make_timers<seconds_heap>(6);
    heap.arm_at(timers[0], 0.3);
    heap.arm_at(timers[1], 0.1);
    heap.arm_at(timers[2], 0.2);
    heap.arm_at(timers[3], 0.1);
    heap.arm_after(timers[4], 0.25);
    heap.arm_at(timers[5], -1.0);
    EXPECT_EQ(timers[5].deadline(), 0.0);
    EXPECT_EQ(heap.next_expiry(), 0.0);
    EXPECT_EQ(fired_until(heap, 0.2), (names{5, 1, 3, 2}));
    EXPECT_EQ(heap.next_bound(), 0.25);
    EXPECT_EQ(fired_until(heap, 0.3), (names{4, 0}));
}

TEST(TimerHeapOfDouble, TheFirstIsTheOneThatFiresFirst) {
    seconds_heap heap(-infinity);  // never advanced: nothing is in its past
    auto timers = make_timers<seconds_heap>(5);
    EXPECT_EQ(heap.first(), nullptr);
    heap.arm_at(timers[0], not_a_number);
    EXPECT_EQ(heap.first(), &timers[0]);
    heap.arm_at(timers[1], 2.0);
    heap.arm_at(timers[2], 1.0);
    heap.arm_at(timers[3], 1.0);
    heap.arm_at(timers[4], -3.0);
    names order;
    while (seconds_timer* const first = heap.first()) {
        order.push_back(first->name);
        EXPECT_TRUE(heap.cancel(*first));
        EXPECT_EQ(heap.check(), nullptr);
    }
    EXPECT_EQ(order, (names{4, 2, 3, 1, 0}));
}

TEST(TimerHeapOfDouble, InfinityAndNotANumberNeverFire) {
    seconds_heap heap(1.0);
    auto timers = make_timers<seconds_heap>(7);
    heap.arm_at(timers[0], not_a_number);
    heap.arm_at(timers[1], infinity);
    EXPECT_EQ(heap.next_expiry(), std::nullopt);
    heap.arm_at(timers[2], 5.0);
    heap.arm_at(timers[3], -not_a_number);
    heap.arm_after(timers[4], infinity);
    heap.arm_at(timers[5], -infinity);
    heap.arm_at(timers[6], std::numeric_limits<double>::max());
    EXPECT_EQ(timers[5].deadline(), 1.0) << "the past, however far";
    EXPECT_EQ(heap.size(), 7U);
    EXPECT_EQ(fired_until(heap, 5.0), (names{5, 2}));
    EXPECT_EQ(fired_until(heap, infinity), names{6});
    EXPECT_EQ(heap.now(), std::numeric_limits<double>::max());
    EXPECT_EQ(heap.next_expiry(), std::nullopt);
    EXPECT_EQ(heap.size(), 4U);
    for (const std::size_t i : {0U, 1U, 3U, 4U})
        EXPECT_TRUE(heap.cancel(timers[i]));
    EXPECT_EQ(heap.check(), nullptr);
}

// They compare with nothing, and must not upset the order of the others.
TEST(TimerHeapOfDouble, KeepsDeadlineOrderAroundNotANumber) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937_64 random(seed);
        seconds_heap heap(0.0);
        auto timers = make_timers<seconds_heap>(200);
        std::size_t finite = 0;
        for (int round = 0; round < 3; ++round) {
            for (auto& timer : timers) {
                const auto what = random() % 4;
                heap.arm_at(timer, what == 0   ? not_a_number
                                   : what == 1 ? infinity
                                               : static_cast<double>(random() % 50));
                ASSERT_EQ(heap.check(), nullptr);
            }
        }
        for (const auto& timer : timers) {
            if (timer.deadline() < 50) ++finite;
        }
        double last = 0;
        EXPECT_EQ(heap.advance(100.0,
                               [&](seconds_timer& timer) {
                                   EXPECT_LE(last, timer.deadline());
                                   last = timer.deadline();
                               }),
                  finite);
    }
}

TEST(TimerHeapOfDouble, IgnoresATimeThatIsNotANumber) {
    seconds_heap heap(1.0);
    auto timers = make_timers<seconds_heap>(1);
    heap.arm_at(timers[0], 2.0);
    EXPECT_EQ(fired_until(heap, not_a_number), names{});
    EXPECT_EQ(heap.now(), 1.0);
    EXPECT_EQ(fired_until(heap, 2.0), names{0});

    seconds_heap odd(not_a_number);
    odd.arm_at(timers[0], 2.0);
    EXPECT_EQ(fired_until(odd, 1.0), names{});
    EXPECT_EQ(fired_until(odd, 2.0), names{0});
}

TEST(TimerHeapOfDouble, ArmsInARangeAtItsEnd) {
    seconds_heap heap(1.0);
    auto timers = make_timers<seconds_heap>(1);
    heap.arm_in_range(timers[0], 2.0, 3.0);
    EXPECT_EQ(timers[0].deadline(), 3.0);
    heap.arm_in_range(timers[0], 2.5, 4.0);
    EXPECT_EQ(timers[0].deadline(), 3.0) << "it fits";
    heap.arm_in_range(timers[0], 3.5, 3.25);
    EXPECT_EQ(timers[0].deadline(), 3.5) << "inverted: never early";
    heap.arm_in_range(timers[0], 0.0, 0.5);
    EXPECT_EQ(timers[0].deadline(), 1.0) << "the past is now";
    heap.arm_in_range(timers[0], 2.0, infinity);
    EXPECT_EQ(timers[0].deadline(), infinity);
}

// ---- time points of a clock ----

struct simulated_clock {
    using duration = std::chrono::microseconds;
    using time_point = std::chrono::time_point<simulated_clock>;
};

using clock_timer = named<heap_timer<simulated_clock::time_point>>;
using clock_heap = timer_heap<clock_timer>;
static_assert(timer_queue<clock_heap>);

constexpr simulated_clock::time_point noon(12h);
constexpr auto no_time = simulated_clock::time_point::max();

TEST(TimerHeapOfTimePoints, FiresAtItsTime) {
    clock_heap heap(noon);
    auto timers = make_timers<clock_heap>(4);
    heap.arm_at(timers[0], noon + 2s);
    heap.arm_after(timers[1], 1500ms);
    heap.arm_after(timers[2], -5s);
    heap.arm_at(timers[3], noon - 1h);
    EXPECT_EQ(timers[2].deadline(), noon) << "a negative delay is none";
    EXPECT_EQ(fired_until(heap, noon), (names{2, 3}));
    EXPECT_EQ(fired_until(heap, noon + 1500ms - 1us), names{});
    EXPECT_EQ(fired_until(heap, noon + 1500ms), names{1});
    EXPECT_EQ(fired_until(heap, noon + 5s), names{0});
}

TEST(TimerHeapOfTimePoints, StopsAtMaxWhichNeverComes) {
    clock_heap heap(noon);
    auto timers = make_timers<clock_heap>(4);
    heap.arm_at(timers[0], no_time);
    heap.arm_after(timers[1], simulated_clock::duration::max());
    heap.arm_after(timers[2], no_time - noon - 1us);
    heap.arm_after(timers[3], simulated_clock::duration::min());
    EXPECT_EQ(timers[1].deadline(), no_time);
    EXPECT_EQ(timers[2].deadline(), no_time - 1us);
    EXPECT_EQ(timers[3].deadline(), noon);
    EXPECT_EQ(fired_until(heap, no_time), (names{3, 2}));
    EXPECT_EQ(heap.now(), no_time - 1us);
    EXPECT_EQ(heap.size(), 2U);
    EXPECT_EQ(heap.next_expiry(), std::nullopt);
}

TEST(TimerHeapOfTimePoints, TakesANegativeDelayAsNoneBeforeTheEpochToo) {
    clock_heap heap(simulated_clock::time_point(-1us));
    auto timers = make_timers<clock_heap>(1);
    heap.arm_after(timers[0], simulated_clock::duration::min());  // the sum would overflow
    EXPECT_EQ(timers[0].deadline(), simulated_clock::time_point(-1us));
}

// ---- time points that count in floating point ----

struct real_clock {
    using duration = std::chrono::duration<double>;
    using time_point = std::chrono::time_point<real_clock>;
};

using real_timer = named<heap_timer<real_clock::time_point>>;
using real_heap = timer_heap<real_timer>;
static_assert(timer_queue<real_heap>);

constexpr real_clock::time_point at_second(double count) {
    return real_clock::time_point(real_clock::duration(count));
}

TEST(TimerHeapOfFloatingTimePoints, InfinityAndNotANumberNeverFire) {
    real_heap heap(at_second(1.0));
    auto timers = make_timers<real_heap>(7);
    heap.arm_at(timers[0], at_second(not_a_number));
    heap.arm_at(timers[1], at_second(infinity));
    EXPECT_EQ(heap.next_expiry(), std::nullopt);
    heap.arm_at(timers[2], at_second(5.0));
    heap.arm_at(timers[3], at_second(-not_a_number));
    heap.arm_after(timers[4], real_clock::duration(infinity));
    heap.arm_at(timers[5], at_second(-infinity));
    heap.arm_at(timers[6], real_clock::time_point::max());
    EXPECT_EQ(timers[5].deadline(), at_second(1.0)) << "the past, however far";
    EXPECT_EQ(fired_until(heap, at_second(5.0)), (names{5, 2}));
    EXPECT_EQ(fired_until(heap, at_second(infinity)), names{6});
    EXPECT_EQ(heap.now(), real_clock::time_point::max());
    EXPECT_EQ(heap.next_expiry(), std::nullopt);
    EXPECT_EQ(heap.size(), 4U);
}

TEST(TimerHeapOfFloatingTimePoints, NotANumberKeepsTheOrderOfTheOthers) {
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
        real_heap heap(at_second(0.0));
        auto timers = make_timers<real_heap>(100);
        std::size_t finite = 0;
        for (real_timer& timer : timers) {
            const unsigned kind = random() % 4;
            if (kind > 1) ++finite;
            heap.arm_at(timer, at_second(kind == 0   ? not_a_number
                                         : kind == 1 ? infinity
                                                     : static_cast<double>(random() % 50)));
            ASSERT_EQ(heap.check(), nullptr);
        }
        auto last = at_second(0.0);
        EXPECT_EQ(heap.advance(at_second(50.0),
                               [&](real_timer& timer) {
                                   EXPECT_LE(last, timer.deadline());
                                   last = timer.deadline();
                               }),
                  finite);
    }
}

TEST(TimerHeapOfFloatingTimePoints, IgnoresATimeThatIsNotANumber) {
    real_heap heap(at_second(1.0));
    auto timers = make_timers<real_heap>(1);
    heap.arm_at(timers[0], at_second(2.0));
    EXPECT_EQ(fired_until(heap, at_second(not_a_number)), names{});
    EXPECT_EQ(heap.now(), at_second(1.0));

    real_heap odd(at_second(not_a_number));
    odd.arm_at(timers[0], at_second(2.0));
    EXPECT_EQ(fired_until(odd, at_second(1.0)), names{});
    EXPECT_EQ(fired_until(odd, at_second(2.0)), names{0});
}

TEST(TimerHeapOfFloatingTimePoints, TakesADelayInAnyUnit) {
    real_heap heap(at_second(1.0));
    auto timers = make_timers<real_heap>(1);
    const auto armed_for = [&](auto delay) {
        heap.arm_after(timers[0], delay);
        return timers[0].deadline();
    };
    EXPECT_EQ(armed_for(500ms), at_second(1.5));
    EXPECT_EQ(armed_for(1h), at_second(3601.0));
    EXPECT_EQ(armed_for(std::chrono::duration<float>(0.25F)), at_second(1.25));
    EXPECT_EQ(armed_for(std::chrono::hours::min()), at_second(1.0)) << "a negative delay is none";
    EXPECT_EQ(armed_for(real_clock::duration(-infinity)), at_second(1.0));
    armed_for(real_clock::duration(not_a_number));
    EXPECT_EQ(heap.next_expiry(), std::nullopt);
    armed_for(std::chrono::duration<double, std::ratio<3600>>::max());
    EXPECT_EQ(heap.next_expiry(), std::nullopt) << "more than the key can hold";
}

// ---- delays in other units than the key's ----

TEST(TimerHeapOfTimePoints, TakesADelayInAnyUnit) {
    clock_heap heap(noon);
    auto timers = make_timers<clock_heap>(1);
    const auto armed_for = [&](auto delay) {
        heap.arm_after(timers[0], delay);
        return timers[0].deadline();
    };
    EXPECT_EQ(armed_for(1h), noon + 1h);
    EXPECT_EQ(armed_for(std::chrono::hours::max()), no_time) << "more than the key can hold";
    EXPECT_EQ(armed_for(std::chrono::hours::min()), noon);
    EXPECT_EQ(armed_for(1ns), noon + 1us) << "rounded up: never early";
    EXPECT_EQ(armed_for(std::chrono::nanoseconds::max()),
              noon + std::chrono::microseconds(std::chrono::nanoseconds::max().count() / 1000 + 1));
    EXPECT_EQ(armed_for(std::chrono::duration<double>(0.5)), noon + 500ms);
    EXPECT_EQ(armed_for(std::chrono::duration<double>(infinity)), no_time);
    EXPECT_EQ(armed_for(std::chrono::duration<double>(not_a_number)), no_time);
    EXPECT_EQ(armed_for(std::chrono::duration<double>(-infinity)), noon);
}

TEST(TimerHeapOfTimePoints, ArmsInARangeAtItsEnd) {
    clock_heap heap(noon);
    auto timers = make_timers<clock_heap>(1);
    heap.arm_in_range(timers[0], noon + 1s, noon + 2s);
    EXPECT_EQ(timers[0].deadline(), noon + 2s);
    heap.arm_in_range(timers[0], noon + 3s, noon + 1s);
    EXPECT_EQ(timers[0].deadline(), noon + 3s);
}

// ---- a key of the user's own ----

// Musical time: it has an order, and nothing else that a number has.
struct beat {
    int bar = 0;
    int quarter = 0;
    friend bool operator<(const beat& a, const beat& b) {
        return a.bar != b.bar ? a.bar < b.bar : a.quarter < b.quarter;
    }
};

struct bars {
    int count;
};

}  // namespace

template <>
struct timer_key_traits<beat> {
    static constexpr int coda = 1000;
    static bool is_never(const beat& key) { return key.bar >= coda; }
    static beat after(const beat& now, bars delay) { return {now.bar + delay.count, now.quarter}; }
    static beat in_range(const beat& earliest, const beat&) { return earliest; }
    static beat as_now(const beat& now) { return is_never(now) ? beat{coda - 1, 3} : now; }
};

namespace {

using note = named<heap_timer<beat>>;

TEST(TimerHeapOfAUsersKey, FollowsItsTraits) {
    timer_heap<note> score(beat{1, 0});
    auto notes = make_timers<timer_heap<note>>(5);
    score.arm_at(notes[0], {2, 1});
    score.arm_after(notes[1], bars{1});
    score.arm_in_range(notes[2], {1, 2}, {9, 0});
    score.arm_at(notes[3], {1000, 0});
    score.arm_at(notes[4], {0, 3});
    EXPECT_EQ(fired_until(score, {1, 1}), names{4});
    EXPECT_EQ(score.next_expiry()->quarter, 2);
    EXPECT_EQ(fired_until(score, {2, 0}), (names{2, 1}));
    EXPECT_EQ(fired_until(score, {1000, 0}), names{0});
    EXPECT_EQ(score.now().bar, 999);
    EXPECT_EQ(score.size(), 1U);
}

// Small integers need no traits at all.
TEST(TimerHeapOfAUsersKey, NeedsNoTraitsIfItAdds) {
    using frame_heap = timer_heap<named<heap_timer<int>>>;
    static_assert(timer_queue<frame_heap>);
    frame_heap heap(-5);
    auto timers = make_timers<frame_heap>(3);
    heap.arm_at(timers[0], 3);
    heap.arm_after(timers[1], 2);
    heap.arm_in_range(timers[2], -4, -1);
    EXPECT_EQ(fired_until(heap, -3), names{1});
    EXPECT_EQ(fired_until(heap, 3), (names{2, 0}));
}

// ---- ticks ----

TEST(TimerHeap, TakesADelayOfAnyIntegerType) {
    named_heap heap(100);
    auto timers = make_timers<named_heap>(1);
    heap.arm_after(timers[0], 5);
    EXPECT_EQ(timers[0].deadline(), 105U);
    heap.arm_after(timers[0], -5);
    EXPECT_EQ(timers[0].deadline(), 100U) << "a negative delay is none";
}

TEST(TimerHeap, CannotBeCopied) {
    static_assert(!std::is_copy_constructible_v<heap_timer<>>);
    static_assert(!std::is_move_assignable_v<heap_timer<>>);
    static_assert(!std::is_copy_constructible_v<timer_heap<>>);
}

// ---- memory ----

#if VERGE_CAN_REFUSE_MEMORY
TEST(TimerHeap, IsWholeWhenMemoryRunsOut) {
    named_heap heap(0);
    auto timers = make_timers<named_heap>(100);
    std::size_t failures = 0;
    for (auto& timer : timers) {
        const tick deadline = 1000 - static_cast<tick>(timer.name);
        const failing_new next(1);
        try {
            heap.arm_at(timer, deadline);
        } catch (const std::bad_alloc&) {
            ++failures;
            ASSERT_FALSE(timer.armed());
            ASSERT_EQ(heap.size(), static_cast<std::size_t>(timer.name));
            ASSERT_EQ(heap.check(), nullptr);
            if (timer.name > 0) heap.arm_at(timers[0], 2000);  // a re-arm needs no memory
            heap.arm_at(timer, deadline);                      // and now there is some
        }
    }
    EXPECT_GE(failures, 5U) << "it grows that often at least";
    EXPECT_EQ(heap.size(), 100U);
    names expected;
    for (int name = 99; name >= 0; --name)
        expected.push_back(name);
    EXPECT_EQ(fired_by(heap, 3000), expected);
}

TEST(TimerHeap, LeavesATimerWhereItIsWhenMemoryRunsOut) {
    named_heap here(0);
    named_heap there(0);
    auto timers = make_timers<named_heap>(1);
    here.arm_at(timers[0], 5);
    {
        const failing_new next(1);
        EXPECT_THROW(there.arm_at(timers[0], 7), std::bad_alloc);
        EXPECT_TRUE(next.struck());
    }
    EXPECT_EQ(here.size(), 1U);
    EXPECT_TRUE(there.empty());
    EXPECT_EQ(timers[0].deadline(), 5U);
    EXPECT_EQ(fired_by(here, 5), names{0});
}

TEST(TimerHeap, DoesNotAllocateWhatIsReserved) {
    named_heap heap(0);
    auto timers = make_timers<named_heap>(100);
    heap.reserve(100);
    const failing_new next(1);
    for (int round = 0; round < 3; ++round) {
        for (auto& timer : timers)
            heap.arm_at(timer, heap.now() + 5);
        heap.advance(heap.now() + 5, [](auto&) {});
    }
    EXPECT_FALSE(next.struck());
    EXPECT_EQ(heap.check(), nullptr);
}

// The wheel never does.
TEST(TimerHeap, IsOutdoneByTheWheelWhichDoesNotAllocate) {
    auto timers = make_timers<named_wheel>(1000);
    const auto deadlines = scattered_deadlines(0, 1000, 1);
    const failing_new next(1);
    named_wheel wheel(0);
    for (std::size_t i = 0; i < timers.size(); ++i)
        wheel.arm_at(timers[i], deadlines[i]);
    wheel.advance(never_tick, [](auto&) {});
    EXPECT_TRUE(wheel.empty());
    EXPECT_FALSE(next.struck());
}
#endif

}  // namespace
}  // namespace verge
