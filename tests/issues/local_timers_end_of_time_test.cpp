// issues/local_timers_end_of_time_test.cpp -- local_timers announced deadlines near the end of time
// that no run_due() reached, so that loops driven by next_expiry() did not end.

#include <verge/queue/local_timers.hpp>

#include <chrono>
#include <cstddef>

#include <gtest/gtest.h>

namespace verge {
namespace {

using namespace std::chrono_literals;

constexpr auto nothing = [] {};

// The loop of the header of local_timers.  Gives up, where it would not end.
std::size_t run_all(local_timers& timers) {
    std::size_t ran = 0;
    for (int i = 0; i < 10 && timers.next_expiry() != never; ++i)
        ran += timers.run_due(timers.next_expiry());
    EXPECT_EQ(timers.next_expiry(), never) << "announced, and not reached";
    return ran;
}

TEST(LocalTimersEndOfTime, TheHeadersLoopEndsWithATimerForNever) {
    local_timers timers;
    timers.schedule_after(3min, nothing);
    timers.schedule_at(never, nothing);
    EXPECT_EQ(run_all(timers), 1U);
    EXPECT_EQ(timers.size(), 1U);
    EXPECT_EQ(timers.now(), time_point(3min)) << "time goes on from there";
}

TEST(LocalTimersEndOfTime, ARangeUntilNeverIsReached) {
    for (const duration resolution : {duration(1), duration(10ms), duration(1h)}) {
        local_timers timers({.resolution = resolution});
        timers.schedule_between(time_point(1s), never, nothing);
        timers.schedule_between(last_time, never, nothing);
        timers.schedule_between(never, never, nothing);
        EXPECT_EQ(run_all(timers), 2U);
    }
}

TEST(LocalTimersEndOfTime, ACoarseResolutionReachesTheLastTime) {
    for (const duration resolution : {duration(1ms), duration(1h), duration::max()}) {
        local_timers timers({.resolution = resolution});
        timers.schedule_at(last_time, nothing);
        timers.schedule_at(last_time - 1ns, nothing);
        EXPECT_EQ(timers.run_due(last_time - 2ns), 0U) << "not early";
        EXPECT_EQ(run_all(timers), 2U);
    }
}

TEST(LocalTimersEndOfTime, APeriodThatEndsAfterTimeDoesIsNever) {
    for (const missed_ticks policy :
         {missed_ticks::burst, missed_ticks::delay, missed_ticks::skip}) {
        local_timers timers({.resolution = 1ms});
        timers.run_due(time_point(1s));
        timers.schedule_every(duration::max() - 1ns, nothing, policy);
        timers.schedule_every(duration::max() - 2s, nothing, policy);
        EXPECT_EQ(run_all(timers), 1U) << "the second one runs once";
        EXPECT_EQ(timers.size(), 2U);
    }
}

TEST(LocalTimersEndOfTime, AfterRunDueOfNeverADelayOfZeroRuns) {
    for (const duration resolution : {duration(1), duration(1h)}) {
        local_timers timers({.resolution = resolution});
        timers.run_due(never);
        EXPECT_EQ(timers.now(), last_time);
        timers.schedule_after(0s, nothing);
        EXPECT_EQ(timers.next_expiry(), last_time);
        EXPECT_EQ(timers.run_due(never), 1U);
    }
}

}  // namespace
}  // namespace verge
