#include <verge/base/clock.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <time.h>

#include <gtest/gtest.h>

namespace verge {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t never_tick = std::numeric_limits<std::uint64_t>::max();
constexpr time_point first_time = time_point::min();

constexpr time_point at(std::int64_t nanoseconds) {
    return time_point(duration(nanoseconds));
}

// ---- deadline_after
// ------------------------------------------------------------------------------

TEST(DeadlineAfter, AddsTheDelay) {
    EXPECT_EQ(deadline_after(at(5), 7ns), at(12));
    EXPECT_EQ(deadline_after(at(-5), 7ns), at(2));
    EXPECT_EQ(deadline_after(at(5), 2s), at(2'000'000'005));
}

TEST(DeadlineAfter, TreatsANegativeDelayAsZero) {
    EXPECT_EQ(deadline_after(at(5), 0ns), at(5));
    EXPECT_EQ(deadline_after(at(5), -7ns), at(5));
    EXPECT_EQ(deadline_after(at(5), duration::min()), at(5));
    EXPECT_EQ(deadline_after(at(5), std::chrono::hours::min()), at(5));
}

TEST(DeadlineAfter, StopsAtNeverInsteadOfOverflowing) {
    EXPECT_EQ(deadline_after(never - 2ns, 1ns), last_time);
    EXPECT_EQ(deadline_after(never - 1ns, 1ns), never);
    EXPECT_EQ(deadline_after(never - 1ns, 2ns), never);
    EXPECT_EQ(deadline_after(at(1), duration::max()), never);
    EXPECT_EQ(deadline_after(never, 1ns), never);
    EXPECT_EQ(deadline_after(never, duration::max()), never);
}

TEST(DeadlineAfter, HasRoomForAnyDelayBeforeTheEpoch) {
    EXPECT_EQ(deadline_after(at(-1), duration::max()), last_time);
    EXPECT_EQ(deadline_after(first_time, duration::max()), at(-1));
    EXPECT_EQ(deadline_after(at(0), duration::max()), never);
}

TEST(DeadlineAfter, TakesDelaysThatNanosecondsCannotHold) {
    EXPECT_EQ(deadline_after(at(0), std::chrono::hours::max()), never);
    EXPECT_EQ(deadline_after(at(-1), std::chrono::microseconds::max()), never);
    EXPECT_EQ(deadline_after(at(0), std::chrono::seconds(9'223'372'037)), never);
    EXPECT_EQ(deadline_after(at(0), std::chrono::seconds(9'223'372'036)),
              at(9'223'372'036'000'000'000));
    using short_seconds = std::chrono::duration<std::int32_t>;
    EXPECT_EQ(deadline_after(at(0), short_seconds::max()), at(2'147'483'647'000'000'000));
}

TEST(DeadlineAfter, IsConstexpr) {
    static_assert(deadline_after(time_point{}, 3s) == time_point(3s));
    static_assert(deadline_after(never, 1h) == never);
}

// ---- time sources
// --------------------------------------------------------------------------------

TEST(SteadySource, ReadsClockMonotonic) {
    const auto read = [] {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        return time_point(std::chrono::seconds(now.tv_sec) + duration(now.tv_nsec));
    };
    const time_point before = read();
    const time_point now = steady_source{}.now();
    const time_point after = read();
    EXPECT_LE(before, now);
    EXPECT_LE(now, after);
}

struct may_throw {
    time_point now() const;
};
struct not_const {
    time_point now() noexcept;
};
struct other_type {
    std::chrono::system_clock::time_point now() const noexcept;
};

TEST(TimeSource, AsksForAConstNoexceptNow) {
    EXPECT_TRUE(time_source<steady_source>);
    EXPECT_FALSE(time_source<may_throw>);
    EXPECT_FALSE(time_source<not_const>);
    EXPECT_FALSE(time_source<other_type>);
    EXPECT_FALSE(time_source<int>);
}

// ---- tick_scale
// ----------------------------------------------------------------------------------

TEST(TickScale, RoundsDeadlinesUpAndNowDown) {
    constexpr tick_scale scale(1ms);
    EXPECT_EQ(scale.ticks_ceil(time_point(5ms)), 5u);
    EXPECT_EQ(scale.ticks_ceil(time_point(5ms + 1ns)), 6u);
    EXPECT_EQ(scale.ticks_ceil(time_point(6ms - 1ns)), 6u);
    EXPECT_EQ(scale.ticks_floor(time_point(5ms)), 5u);
    EXPECT_EQ(scale.ticks_floor(time_point(6ms - 1ns)), 5u);
    EXPECT_EQ(scale.time_of(5), time_point(5ms));
}

TEST(TickScale, CountsFromItsOrigin) {
    constexpr tick_scale scale(10ns, at(-25));
    EXPECT_EQ(scale.origin(), at(-25));
    EXPECT_EQ(scale.resolution(), 10ns);
    EXPECT_EQ(scale.ticks_ceil(at(-25)), 0u);
    EXPECT_EQ(scale.ticks_ceil(at(-24)), 1u);
    EXPECT_EQ(scale.ticks_floor(at(4)), 2u);
    EXPECT_EQ(scale.ticks_floor(at(5)), 3u);
    EXPECT_EQ(scale.time_of(3), at(5));
}

TEST(TickScale, TakesTimesBeforeTheOriginForTickZero) {
    for (const duration resolution : {1ns, 7ns}) {
        const tick_scale scale(resolution, at(1000));
        for (const time_point early : {at(999), at(0), at(-1), first_time}) {
            EXPECT_EQ(scale.ticks_ceil(early), 0u);
            EXPECT_EQ(scale.ticks_floor(early), 0u);
        }
        EXPECT_EQ(scale.time_of(0), at(1000));
    }
}

TEST(TickScale, RefusesAResolutionBelowOneNanosecond) {
    EXPECT_THROW(tick_scale{0ns}, std::invalid_argument);
    EXPECT_THROW(tick_scale{-1ns}, std::invalid_argument);
    EXPECT_THROW(tick_scale{duration::min()}, std::invalid_argument);
    EXPECT_NO_THROW(tick_scale{1ns});
    EXPECT_NO_THROW(tick_scale{duration::max()});
    EXPECT_THROW(tick_scale{std::chrono::hours::min()}, std::invalid_argument);
    EXPECT_THROW(tick_scale{-1h}, std::invalid_argument);
}

TEST(TickScale, TakesAResolutionThatNanosecondsCannotHoldForTheirLongest) {
    EXPECT_EQ(tick_scale{std::chrono::hours::max()}.resolution(), duration::max());
    EXPECT_EQ(tick_scale{2h}.resolution(), duration(2h));
}

TEST(TickScale, RefusesNeverAsItsOrigin) {
    EXPECT_THROW(tick_scale(1ns, never), std::invalid_argument);
    EXPECT_NO_THROW(tick_scale(1ns, last_time));
}

// Every time and scale at which an off-by-one or an overflow could hide.
std::vector<time_point> edge_times() {
    std::vector<time_point> times;
    for (const std::int64_t base :
         {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1'000'000'007}, std::int64_t{0},
          std::int64_t{1} << 32, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()}) {
        for (std::int64_t offset = -12; offset <= 12; ++offset) {
            std::int64_t sum = 0;
            if (!__builtin_add_overflow(base, offset, &sum)) times.push_back(at(sum));
        }
    }
    return times;
}

std::vector<tick_scale> edge_scales() {
    std::vector<tick_scale> scales;
    for (const duration resolution :
         {1ns, 2ns, 3ns, 10ns, duration(1ms), duration(std::int64_t{1} << 62), duration::max()}) {
        for (const time_point origin :
             {first_time, first_time + 1ns, at(-1), at(0), at(1), at(12345),
              at(std::int64_t{1} << 62), last_time - 1ns, last_time}) {
            scales.emplace_back(resolution, origin);
        }
    }
    return scales;
}

__extension__ using wide = __int128;  // exact for all sums here
wide count(time_point t) {
    return t.time_since_epoch().count();
}

TEST(TickScale, AgreesWithExactArithmetic) {
    for (const tick_scale& scale : edge_scales()) {
        for (const time_point t : edge_times()) {
            if (t == never) continue;
            const wide resolution = scale.resolution().count();
            const wide distance = t <= scale.origin() ? 0 : count(t) - count(scale.origin());
            ASSERT_TRUE(scale.ticks_floor(t) == distance / resolution);
            ASSERT_TRUE(scale.ticks_ceil(t) == (distance + resolution - 1) / resolution);
            const std::uint64_t tick = scale.ticks_ceil(t);
            const wide exact = count(scale.origin()) + wide{tick} * resolution;
            ASSERT_TRUE(count(scale.time_of(tick)) == std::min(exact, count(last_time)));
        }
    }
}

TEST(TickScale, ComesBackNoEarlier) {
    for (const tick_scale& scale : edge_scales()) {
        for (const time_point t : edge_times())
            ASSERT_GE(scale.time_of(scale.ticks_ceil(t)), t);
    }
}

TEST(TickScale, NeverFiresEarly) {
    const auto check = [](const tick_scale& scale, time_point now, time_point deadline) {
        if (now < scale.origin()) return;
        const bool fires = scale.ticks_floor(now) >= scale.ticks_ceil(deadline);
        if (fires) {
            ASSERT_GE(now, deadline);
        } else if (deadline != never && now != never) {
            // Nor is it late by a resolution or more.
            ASSERT_LT(count(now),
                      count(std::max(deadline, scale.origin())) + wide{scale.resolution().count()});
        }
    };
    const std::vector<time_point> times = edge_times();
    for (const tick_scale& scale : edge_scales()) {
        for (const time_point now : times) {
            for (const time_point deadline : times)
                check(scale, now, deadline);
        }
    }
    std::mt19937_64 random(42);
    for (int i = 0; i < 100'000; ++i) {
        const auto resolution = static_cast<std::int64_t>(random() >> (1 + random() % 63));
        const time_point origin = at(static_cast<std::int64_t>(random()));
        if (resolution == 0 || origin == never) continue;
        const time_point deadline = at(static_cast<std::int64_t>(random()));
        const auto near = static_cast<std::int64_t>(random() % 5) - 2;
        const time_point now = random() % 2 ? at(static_cast<std::int64_t>(random()))
                                            : deadline_after(deadline, duration(near));
        check(tick_scale(duration(resolution), origin), now, deadline);
    }
}

TEST(TickScale, NeverStaysNever) {
    for (const tick_scale& scale : edge_scales()) {
        EXPECT_EQ(scale.ticks_ceil(never), never_tick);
        EXPECT_EQ(scale.ticks_floor(never), never_tick);
        EXPECT_EQ(scale.time_of(never_tick), never);
        EXPECT_NE(scale.ticks_ceil(last_time), never_tick);
        EXPECT_NE(scale.time_of(never_tick - 1), never);
        EXPECT_LT(scale.ticks_floor(last_time), never_tick);
    }
}

TEST(TickScale, HoldsTheWholeSpanOfTimeAtOneNanosecond) {
    constexpr tick_scale scale(1ns, first_time);
    EXPECT_EQ(scale.ticks_ceil(last_time), never_tick - 1);
    EXPECT_EQ(scale.time_of(never_tick - 1), last_time);
    EXPECT_EQ(scale.time_of(never_tick / 2 + 1), at(0));
}

TEST(TickScale, StopsAtTheLastTime) {
    EXPECT_EQ(tick_scale(1ns, at(1)).time_of(never_tick - 1), last_time);
    EXPECT_EQ(tick_scale(duration::max()).time_of(1), last_time);
    EXPECT_EQ(tick_scale(duration::max()).time_of(2), last_time);
    EXPECT_EQ(tick_scale(2ns).time_of(std::uint64_t{1} << 63), last_time);  // 2^64: would wrap to 0
}

TEST(TickScale, IsMonotonic) {
    for (const tick_scale& scale : edge_scales()) {
        time_point before = first_time;
        for (const time_point t : edge_times()) {  // ascending
            ASSERT_LE(before, t);
            ASSERT_LE(scale.ticks_floor(before), scale.ticks_floor(t));
            ASSERT_LE(scale.ticks_ceil(before), scale.ticks_ceil(t));
            before = t;
        }
    }
}

}  // namespace
}  // namespace verge
