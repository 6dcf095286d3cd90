#include <verge/queue/periodic.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

constexpr std::array<missed_ticks, 3> policies = {missed_ticks::burst, missed_ticks::delay,
                                                  missed_ticks::skip};

// By definition: walks from tick to tick.  never_tick ends the walk, as it ends time.
period_step by_walking(tick last, tick period, tick now, missed_ticks policy) {
    if (period == 0) period = 1;
    const tick next = tick_after(last, period);
    if (policy == missed_ticks::burst) return {next, 0};
    tick dropped = 0;
    tick at = next;
    for (; at < now; at = tick_after(at, period))
        ++dropped;
    if (dropped == 0) return {next, 0};
    return {policy == missed_ticks::skip ? at : tick_after(now, period), dropped};
}

void expect_as_by_walking(tick last, tick period, tick now) {
    for (const missed_ticks policy : policies) {
        ASSERT_EQ(next_period(last, period, now, policy), by_walking(last, period, now, policy))
            << "last " << last << " period " << period << " now " << now << " policy "
            << static_cast<int>(policy);
    }
}

TEST(Periodic, IsWhatWalkingGivesForAllSmallNumbers) {
    for (tick last = 0; last < 20; ++last) {
        for (tick period = 0; period < 12; ++period) {
            for (tick now = 0; now < 80; ++now) {
                ASSERT_NO_FATAL_FAILURE(expect_as_by_walking(last, period, now));
            }
        }
    }
}

TEST(Periodic, IsWhatWalkingGivesAtTheEndOfTime) {
    for (tick last = 0; last < 40; ++last) {
        for (tick period = 0; period < 50; ++period) {
            for (tick now = 0; now < 40; ++now) {
                ASSERT_NO_FATAL_FAILURE(
                    expect_as_by_walking(never_tick - last, period, never_tick - now));
            }
        }
    }
}

TEST(Periodic, IsWhatWalkingGivesForNumbersOfEverySize) {
    std::mt19937_64 random(1);
    const auto any = [&] { return random() >> random() % 64; };
    for (int i = 0; i < 20'000; ++i) {
        const tick last = any();
        const tick now = any();
        tick period = any();
        if (now > last && (now - last) / 200 > period)
            period += (now - last) / 200;  // a short walk
        ASSERT_NO_FATAL_FAILURE(expect_as_by_walking(last, period, now));
    }
}

TEST(Periodic, KnowsThreePoliciesForMissedTicks) {
    // Due at 100, every 10, and it is 137: the ticks 110, 120 and 130 are missed, 140 is not.
    static_assert(next_period(100, 10, 137, missed_ticks::burst) == period_step{110, 0});
    static_assert(next_period(100, 10, 137, missed_ticks::delay) == period_step{147, 3});
    static_assert(next_period(100, 10, 137, missed_ticks::skip) == period_step{140, 3});
}

TEST(Periodic, IsOnePeriodLaterWhileNothingIsMissed) {
    for (const missed_ticks policy : policies) {
        for (tick now = 0; now <= 110; ++now) {
            EXPECT_EQ(next_period(100, 10, now, policy), (period_step{110, 0}));
        }
    }
}

TEST(Periodic, ATickDueNowIsNotMissed) {
    for (const missed_ticks policy : policies) {
        EXPECT_EQ(next_period(100, 10, 110, policy), (period_step{110, 0}));
    }
    EXPECT_EQ(next_period(100, 10, 130, missed_ticks::skip), (period_step{130, 2}));
    EXPECT_EQ(next_period(100, 10, 130, missed_ticks::delay), (period_step{140, 2}));
    EXPECT_EQ(next_period(100, 10, 111, missed_ticks::skip), (period_step{120, 1}));
}

TEST(Periodic, APeriodOfZeroCountsAsOne) {
    for (const missed_ticks policy : policies) {
        for (const tick now : {tick{0}, tick{100}, tick{101}, tick{102}, tick{5000}}) {
            EXPECT_EQ(next_period(100, 0, now, policy), next_period(100, 1, now, policy));
        }
    }
    EXPECT_EQ(next_period(100, 0, 100, missed_ticks::skip), (period_step{101, 0}));
}

TEST(Periodic, StopsAtNeverInsteadOfOverflowing) {
    for (const missed_ticks policy : policies) {
        EXPECT_EQ(next_period(never_tick - 5, 10, 0, policy), (period_step{never_tick, 0}));
        EXPECT_EQ(next_period(never_tick, 1, never_tick, policy), (period_step{never_tick, 0}));
        EXPECT_EQ(next_period(1, never_tick, 5, policy), (period_step{never_tick, 0}));
    }
    EXPECT_EQ(next_period(0, 10, never_tick - 3, missed_ticks::delay).next, never_tick);
    EXPECT_EQ(next_period(never_tick - 20, 7, never_tick - 2, missed_ticks::skip),
              (period_step{never_tick, 2}));
    EXPECT_EQ(next_period(0, 1, never_tick, missed_ticks::skip),
              (period_step{never_tick, never_tick - 1}));
    EXPECT_EQ(next_period(0, tick{1} << 63, never_tick, missed_ticks::skip),
              (period_step{never_tick, 1}));
}

// However late each run is, the ticks stay where they were at first: start + k * period.
TEST(Periodic, KeepsThePhaseExactly) {
    constexpr tick start = 12'345;
    constexpr tick period = 977;
    std::mt19937_64 random(2);
    for (const missed_ticks policy : {missed_ticks::burst, missed_ticks::skip}) {
        tick due = start;
        tick now = start;
        tick run = 0;
        tick dropped = 0;
        for (int i = 0; i < 1'000'000; ++i) {
            if (now < due) now = due;
            now += random() % 4 == 0 ? random() % (5 * period) : random() % 10;
            ++run;
            const period_step step = next_period(due, period, now, policy);
            dropped += step.dropped;
            ASSERT_EQ(step.next, start + (run + dropped) * period);
            if (policy == missed_ticks::skip) {
                ASSERT_GE(step.next, now);
                ASSERT_TRUE(step.dropped == 0 || step.next - period < now)
                    << "the first not missed";
            }
            due = step.next;
        }
        EXPECT_EQ(dropped == 0, policy == missed_ticks::burst);
    }
}

TEST(Periodic, DelayStartsANewPhaseOnlyWhenATickWasMissed) {
    tick due = 100;
    for (int i = 0; i < 1000; ++i) {  // late, but never by a period
        due = next_period(due, 10, due + 9, missed_ticks::delay).next;
        ASSERT_EQ(due % 10, 0U);
    }
    const period_step step = next_period(due, 10, due + 23, missed_ticks::delay);
    EXPECT_EQ(step, (period_step{due + 33, 2}));
}

// On a wheel, as the header shows it.
TEST(Periodic, BurstOnAWheelMakesUpForWhatWasMissedInOneAdvance) {
    struct ticker : wheel_timer {};
    for (const missed_ticks policy : policies) {
        timing_wheel<ticker> wheel(0);
        ticker timer;
        wheel.arm_at(timer, 10);
        std::vector<tick> ran;
        const auto fire = [&](ticker& t) {
            ran.push_back(t.deadline());
            wheel.arm_next(t, next_period(t.deadline(), 10, wheel.now(), policy).next);
        };
        wheel.advance(10, fire);
        wheel.advance(45, fire);
        wheel.advance(50, fire);
        wheel.advance(55, fire);
        switch (policy) {
            case missed_ticks::burst:
                EXPECT_EQ(ran, (std::vector<tick>{10, 20, 30, 40, 50}));
                break;
            case missed_ticks::delay:
                EXPECT_EQ(ran, (std::vector<tick>{10, 20, 55}));
                break;
            case missed_ticks::skip:
                EXPECT_EQ(ran, (std::vector<tick>{10, 20, 50}));
                break;
        }
    }
}

}  // namespace
}  // namespace verge
