// unit/queue/durations_test.cpp -- every function of a queue that takes a duration saturates: the
// longest duration of any unit is never, or the end of time, and not a moment in the past.

#include <verge/queue/local_timers.hpp>
#include <verge/queue/timer_heap.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <type_traits>

#include <gtest/gtest.h>

namespace verge {
namespace {

template <class Unit>
class Durations : public testing::Test {
protected:
    // From the longest down to where a nanosecond holds it, give or take a unit; and negative ones.
    template <class Try>
    static void for_each(Try attempt) {
        const auto fits =
            std::chrono::duration_cast<std::chrono::duration<std::int64_t, typename Unit::period>>(
                duration::max());
        for (const auto count : {fits.count() - 1, fits.count(), fits.count() + 1}) {
            if (count > 0 && count <= std::numeric_limits<typename Unit::rep>::max()) {
                attempt(Unit(static_cast<typename Unit::rep>(count)));
            }
        }
        attempt(Unit::max());
        attempt(Unit::max() - Unit(1));
        attempt(Unit::max() / 2);
        attempt(Unit::min());
        attempt(Unit(-1));
    }

    // now + length in 128 bits, or never.
    static time_point sum(time_point now, Unit length) {
        __extension__ using wide = __int128;
        const wide ratio = std::ratio_divide<typename Unit::period, std::nano>::num;
        const wide count = std::max<wide>(length.count(), 0) * ratio;
        const wide end = now.time_since_epoch().count() + count;
        if (count >= duration::max().count() && !std::is_same_v<Unit, duration>) return never;
        if (end >= never.time_since_epoch().count()) return never;
        return time_point(duration(static_cast<std::int64_t>(end)));
    }
};

struct clock_of_nanoseconds {
    using duration = verge::duration;
    using time_point = std::chrono::time_point<clock_of_nanoseconds>;
};
using nanosecond_heap = timer_heap<heap_timer<clock_of_nanoseconds::time_point>>;

using units = testing::Types<std::chrono::nanoseconds, std::chrono::microseconds,
                             std::chrono::milliseconds, std::chrono::seconds, std::chrono::minutes,
                             std::chrono::hours, std::chrono::days, std::chrono::years,
                             std::chrono::duration<std::int32_t, std::ratio<3600>>,
                             std::chrono::duration<std::int16_t, std::ratio<31556952LL * 100>>>;
TYPED_TEST_SUITE(Durations, units);

constexpr time_point starts[] = {
    time_point::min(),           time_point(duration(-5)), time_point(),
    time_point(duration(12345)), last_time - duration(3),  last_time};

TYPED_TEST(Durations, SaturateAsDelaysOfLocalTimers) {
    for (const time_point start : starts) {
        local_timers timers({.start = start});
        this->for_each([&](TypeParam delay) {
            timers.schedule_after(delay, [] {});
            EXPECT_EQ(timers.next_expiry(), this->sum(start, delay)) << delay.count();
            timers.clear();
        });
    }
}

TYPED_TEST(Durations, SaturateAsPeriodsOfLocalTimers) {
    for (const time_point start : starts) {
        local_timers timers({.start = start});
        this->for_each([&](TypeParam period) {
            timers.schedule_every(period, [] {});
            const time_point least = start == last_time ? never : start + duration(1);
            const time_point expected = std::max(this->sum(start, period), least);
            const bool longest = std::is_same_v<TypeParam, duration> && period == period.max();
            EXPECT_EQ(timers.next_expiry(), longest ? never : expected) << period.count();
            timers.clear();
        });
    }
}

TYPED_TEST(Durations, SaturateAsDelaysOfAHeap) {
    using key = clock_of_nanoseconds::time_point;
    for (const time_point start : starts) {
        nanosecond_heap heap(key(start.time_since_epoch()));
        nanosecond_heap::timer_type timer;
        this->for_each([&](TypeParam delay) {
            heap.arm_after(timer, delay);
            const key expected(this->sum(start, delay).time_since_epoch());
            EXPECT_EQ(timer.deadline(), expected) << delay.count();
        });
    }
}

TEST(TickDelays, SaturateAsDelaysOfTheWheel) {
    constexpr auto longest = std::numeric_limits<std::int64_t>::max();
    for (const tick start : {tick{0}, tick{5}, tick{longest}, never_tick - 2, never_tick - 1}) {
        timing_wheel<> wheel(start);
        wheel_timer timer;
        wheel.arm_after(timer, never_tick);
        EXPECT_EQ(timer.deadline(), never_tick);
        wheel.arm_after(timer, std::numeric_limits<std::int64_t>::min());
        EXPECT_EQ(timer.deadline(), start);
        wheel.arm_after(timer, longest);
        EXPECT_EQ(timer.deadline(), start <= longest ? start + longest : never_tick);
        wheel.arm_after(timer, never_tick - start);
        EXPECT_EQ(wheel.next_expiry(), std::nullopt);
    }
}

}  // namespace
}  // namespace verge
