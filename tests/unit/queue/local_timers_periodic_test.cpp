// Periodic timers of local_timers: phase, missed ticks, rounding.

#include "unit/queue/local_timers_fixture.hpp"

namespace verge {
namespace {

TEST_F(LocalTimers, RunsEveryPeriodInPhase) {
    run(3ns);
    const timer_id id = timers_->schedule_every(10ns, note(1));
    for (int i = 1; i <= 1000; ++i) {
        const duration due = 3ns + 10ns * i;
        ASSERT_EQ(timers_->next_expiry(), at(due));
        ASSERT_EQ(run(due - 1ns), names{});
        ASSERT_EQ(run(due + duration(i % 10)), names{1}) << "a late run does not move the phase";
        ASSERT_EQ(timers_->size(), 1U);
    }
    EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
    EXPECT_EQ(run(1h), names{});
}

TEST_F(LocalTimers, BurstMakesUpForEveryMissedRunInItsOrder) {
    for (int i = 0; i < 5; ++i)
        timers_->schedule_at(at(duration(15 + 10 * i)), note(15 + 10 * i));
    timers_->schedule_every(
        10ns, [this] { ran_.push_back(-1); }, missed_ticks::burst);
    timers_->schedule_at(at(30ns), note(30));
    EXPECT_EQ(run(55ns), (names{-1, 15, -1, 25, 30, -1, 35, -1, 45, -1, 55}))
        << "all in one run_due(), among the others by deadline, equal ones as they were armed";
    EXPECT_EQ(timers_->next_expiry(), at(60ns));
    EXPECT_EQ(run(59ns), names{});
    EXPECT_EQ(run(60ns), names{-1});
}

TEST_F(LocalTimers, BurstKeepsItsPlaceOverABudget) {
    timers_->schedule_every(10ns, note(-1), missed_ticks::burst);
    timers_->schedule_at(at(25ns), note(25));
    EXPECT_EQ(run(50ns, 2), (names{-1, -1}));
    EXPECT_EQ(timers_->next_expiry(), at(25ns));
    EXPECT_EQ(run(50ns, 2), (names{25, -1}));
    EXPECT_EQ(run(50ns, 2), (names{-1, -1}));
    EXPECT_EQ(run(50ns, 2), names{});
    EXPECT_EQ(timers_->next_expiry(), at(60ns));
}

TEST_F(LocalTimers, TwoBurstsInterleave) {
    timers_->schedule_every(20ns, note(2), missed_ticks::burst);
    timers_->schedule_every(30ns, note(3), missed_ticks::burst);
    EXPECT_EQ(run(100ns), (names{2, 3, 2, 3, 2, 2, 3, 2}));  // 20 30 40 60 60 80 90 100
}

TEST_F(LocalTimers, DelayDropsWhatWasMissedAndStartsANewPhase) {
    timers_->schedule_every(10ns, note(1), missed_ticks::delay);
    EXPECT_EQ(run(57ns), names{1});
    EXPECT_EQ(timers_->next_expiry(), at(67ns));
    EXPECT_EQ(run(67ns), names{1});
    EXPECT_EQ(timers_->next_expiry(), at(77ns));
    EXPECT_EQ(run(87ns), (names{1, 1})) << "the tick due now is not missed";
}

TEST_F(LocalTimers, SkipDropsWhatWasMissedAndKeepsThePhase) {
    timers_->schedule_every(10ns, note(1));
    EXPECT_EQ(run(57ns), names{1});
    EXPECT_EQ(timers_->next_expiry(), at(60ns));
    EXPECT_EQ(run(60ns), names{1});
    EXPECT_EQ(timers_->next_expiry(), at(70ns));
    EXPECT_EQ(run(90ns), (names{1, 1})) << "the tick due now is not missed";
    EXPECT_EQ(run(90ns), names{});
}

TEST_F(LocalTimers, RoundsAPeriodUpToTheResolution) {
    make({.resolution = 10ns});
    const auto period_of = [&](duration asked) {
        const timer_id id = timers_->schedule_every(asked, note(1));
        const time_point first = timers_->next_expiry();
        timers_->run_due(first);
        const duration period = timers_->next_expiry() - first;
        EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
        return period;
    };
    EXPECT_EQ(period_of(10ns), 10ns);
    EXPECT_EQ(period_of(11ns), 20ns);
    EXPECT_EQ(period_of(20ns), 20ns);
    EXPECT_EQ(period_of(1ns), 10ns);
    EXPECT_EQ(period_of(0ns), 10ns);
    EXPECT_EQ(period_of(-5s), 10ns);
    EXPECT_EQ(period_of(duration::min()), 10ns);
}

TEST_F(LocalTimers, TheFirstPeriodIsNotShort) {
    make({.resolution = 10ns});
    run(5ns);
    timers_->schedule_every(10ns, note(1));
    EXPECT_EQ(timers_->next_expiry(), at(20ns)) << "15, rounded up";
}

TEST_F(LocalTimers, ReschedulingAPeriodicTimerMovesItsPhase) {
    const timer_id id = timers_->schedule_every(10ns, note(1));
    EXPECT_EQ(timers_->reschedule(id, at(23ns)), reschedule_result::pending);
    EXPECT_EQ(run(22ns), names{});
    EXPECT_EQ(run(23ns), names{1});
    EXPECT_EQ(timers_->next_expiry(), at(33ns));
}

TEST_F(LocalTimers, APeriodicCallbackKeepsItsState) {
    std::vector<int> counts;
    timers_->schedule_every(
        10ns, [&counts, state = std::make_unique<int>(0)] { counts.push_back(++*state); });
    for (int i = 1; i <= 5; ++i)
        timers_->run_due(at(10ns * i));
    EXPECT_EQ(counts, (std::vector<int>{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace verge
