// A range until `never` gave the timer service a deadline beyond the last time, which no collect()
// reaches; and a collect() whose `now` went back gave out timers early.

#include "unit/driver/timer_service_fixture.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

TEST(EndOfTime, ARangeUntilNeverEndsAtTheLastTime) {
    bell nobody;
    timer_service timers(nobody, {.shards = 1});
    int ran = 0;
    const timer_id id = timers.arm_between(at(1s), never, [&] { ++ran; });
    ASSERT_TRUE(timers.deadline_of(id).has_value());
    EXPECT_GE(*timers.deadline_of(id), at(1s));
    EXPECT_LE(*timers.deadline_of(id), last_time);
    EXPECT_EQ(timers.run_due(timers.prepare_wait()), 1U) << "what it announces, it runs";
    EXPECT_EQ(ran, 1);
    const timer_id endless = timers.arm_between(never, never, [&] { ++ran; });
    EXPECT_EQ(timers.deadline_of(endless), never);
    EXPECT_EQ(timers.run_due(last_time), 0U);
}

// Random programs in which the time given to run_due() goes back and forth.
TEST(EndOfTime, ATimeThatGoesBackGivesNothingEarly) {
    std::mt19937 random(1);
    for (int program = 0; program < 300; ++program) {
        bell nobody;
        timer_service timers(nobody, {.shards = 1 + random() % 3});
        duration now{};
        std::size_t armed = 0;
        std::size_t ran = 0;
        for (int step = 0; step < 60; ++step) {
            const duration some(random() % 2 == 0 ? random() % 300 : random() % 300'000);
            switch (random() % 3) {
                case 0: {
                    const duration deadline = some;
                    timers.arm(at(deadline), [&, deadline] {
                        EXPECT_LE(deadline, now) << "early";
                        ++ran;
                    });
                    ++armed;
                    break;
                }
                case 1:
                    now = some;
                    timers.run_due(at(now), random() % 2 == 0 ? no_budget : 1 + random() % 3);
                    break;
                default: {
                    const time_point next = timers.prepare_wait();
                    if (next == never) break;
                    now = next - at({});
                    timers.run_due(next);
                }
            }
        }
        now = 1h;
        while (timers.run_due(at(now)) != 0) {
        }
        EXPECT_EQ(ran, armed);
    }
}

}  // namespace
}  // namespace verge
