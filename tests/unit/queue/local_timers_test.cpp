#include "unit/queue/local_timers_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>

namespace verge {
namespace {

// ---- time -------------------------------------------------------------------------------------

TEST_F(LocalTimers, RunsAtItsTimeAndOnce) {
    const timer_id id = timers_->schedule_at(at(100ns), note(1));
    EXPECT_TRUE(id);
    EXPECT_EQ(timers_->size(), 1U);
    EXPECT_EQ(run(99ns), names{});
    EXPECT_EQ(run(100ns), names{1});
    EXPECT_EQ(run(1h), names{});
    EXPECT_EQ(timers_->size(), 0U);
}

TEST_F(LocalTimers, ADelayThatNanosecondsCannotHoldIsNever) {
    const timer_id id = timers_->schedule_after(std::chrono::hours::max(), note(1));
    EXPECT_EQ(timers_->remaining(id), duration::max());
    timers_->schedule_after(std::chrono::hours::min(), note(2));
    EXPECT_EQ(run(0ns), names{2}) << "a negative delay counts as 0";

    for (const time_point start : {at(-1ns), time_point::min()}) {
        make({.start = start});
        timers_->schedule_after(std::chrono::hours::max(), note(3));
        EXPECT_EQ(timers_->next_expiry(), never);
        timers_->schedule_after(std::chrono::hours::min(), note(4));
        EXPECT_EQ(timers_->run_due(last_time), 1U) << "also before the epoch";
        EXPECT_EQ(ran(), names{4});
    }
}

TEST_F(LocalTimers, APeriodThatNanosecondsCannotHoldIsNever) {
    for (const time_point start : {at(0ns), at(-1h), time_point::min()}) {
        make({.start = start});
        const timer_id id = timers_->schedule_every(std::chrono::hours::max(), note(1));
        EXPECT_EQ(timers_->remaining(id), duration::max());
        EXPECT_EQ(timers_->next_expiry(), never);
        timers_->schedule_every(std::chrono::hours::min(), note(2));
        EXPECT_EQ(timers_->run_due(start + 1ns), 1U) << "a negative period is the least one";
        EXPECT_EQ(ran(), names{2});
    }
    timers_->clear();
    EXPECT_EQ(timers_->run_due(last_time), 0U);
    timers_->schedule_every(2h, note(3));
    EXPECT_EQ(timers_->size(), 1U) << "others are what they were";
}

TEST_F(LocalTimers, NeverRunsEarly) {
    std::mt19937_64 random(1);
    for (const duration resolution : {1ns, 2ns, 10ns, 64ns, 1000ns}) {
        for (const duration start : {0ns, 3ns, 12'345ns}) {
            make({.resolution = resolution, .start = at(start)});
            struct shot {
                time_point deadline;
                time_point ran = never;
            };
            std::vector<shot> shots(2000);
            time_point now = at(start);
            for (shot& s : shots) {
                s.deadline = at(start) + duration(random() % 5000);
                timers_->schedule_at(s.deadline, [&] { s.ran = now; });
            }
            while (timers_->size() > 0) {
                const time_point before = now;
                now += duration(1 + random() % 40);
                timers_->run_due(now);
                for (const shot& s : shots) {
                    if (s.ran != now) continue;
                    ASSERT_GE(now, s.deadline) << "early";
                    ASSERT_LT(before, s.deadline + resolution) << "late by more than a tick";
                }
            }
            for (const shot& s : shots)
                ASSERT_NE(s.ran, never);
        }
    }
}

TEST_F(LocalTimers, RoundsDeadlinesUpAndNowDown) {
    make({.resolution = 10ms, .start = at(3ms)});
    const timer_id id = timers_->schedule_at(at(14ms), note(1));  // ticks are 3, 13, 23
    EXPECT_EQ(timers_->next_expiry(), at(23ms));
    EXPECT_EQ(timers_->remaining(id), 20ms);
    EXPECT_EQ(run(14ms), names{});
    EXPECT_EQ(run(23ms - 1ns), names{});
    EXPECT_EQ(run(23ms), names{1});
    timers_->schedule_at(at(33ms), note(2));
    EXPECT_EQ(timers_->next_expiry(), at(33ms)) << "a deadline on a tick stays there";
}

TEST_F(LocalTimers, CountsDelaysFromTheTimeTold) {
    make({.start = at(1s)});
    EXPECT_EQ(timers_->now(), at(1s));
    timers_->schedule_after(5ns, note(1));
    EXPECT_EQ(timers_->next_expiry(), at(1s + 5ns));
    EXPECT_EQ(run(2s), names{1});
    EXPECT_EQ(timers_->now(), at(2s));
    timers_->schedule_after(5ns, note(2));
    EXPECT_EQ(timers_->next_expiry(), at(2s + 5ns));
}

TEST_F(LocalTimers, TimeGoingBackwardsIsIgnored) {
    timers_->schedule_at(at(20s), note(1));
    EXPECT_EQ(run(10s), names{});
    EXPECT_EQ(run(1s), names{});
    EXPECT_EQ(timers_->now(), at(10s));
    timers_->schedule_at(at(5s), note(2));
    EXPECT_EQ(run(1s), names{2}) << "it acts as at the latest time told";
}

TEST_F(LocalTimers, PastDeadlinesAndNegativeDelaysRunAtOnce) {
    run(10s);
    timers_->schedule_at(at(5s), note(1));
    timers_->schedule_after(-1ns, note(2));
    timers_->schedule_after(duration::min(), note(3));
    timers_->schedule_at(time_point::min(), note(4));
    timers_->schedule_after(0ns, note(5));
    EXPECT_EQ(timers_->next_expiry(), at(10s));
    EXPECT_EQ(run(10s), (names{1, 2, 3, 4, 5})) << "all count as scheduled for now";
}

TEST_F(LocalTimers, NeverNeverRuns) {
    const timer_id id = timers_->schedule_at(never, note(1));
    EXPECT_EQ(timers_->size(), 1U);
    EXPECT_EQ(timers_->next_bound(), never);
    EXPECT_EQ(timers_->next_expiry(), never);
    EXPECT_EQ(timers_->remaining(id), duration::max());
    EXPECT_EQ(run(duration::max() - 1ns), names{});
    EXPECT_EQ(run(duration::max()), names{}) << "not even then";
    EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
}

TEST_F(LocalTimers, AnOverflowingDelayIsNever) {
    run(10s);
    const timer_id id = timers_->schedule_after(duration::max(), note(1));
    EXPECT_EQ(timers_->remaining(id), duration::max());
    timers_->schedule_every(duration::max(), note(2));
    timers_->schedule_between(at(11s), never, note(3));
    timers_->schedule_at(last_time, note(4));
    EXPECT_EQ(timers_->size(), 4U);
    const names all = run(duration::max());
    EXPECT_EQ(std::count(all.begin(), all.end(), 1), 0);
    EXPECT_EQ(std::count(all.begin(), all.end(), 4), 1) << "the last time does come";
}

TEST_F(LocalTimers, TellsDistancesThatNoDurationHolds) {
    make({.start = time_point::min()});
    const timer_id far = timers_->schedule_at(last_time, note(1));
    const timer_id near = timers_->schedule_at(time_point::min() + duration::max() - 1ns, note(2));
    EXPECT_EQ(timers_->remaining(far), duration::max());
    EXPECT_EQ(timers_->remaining(near), duration::max() - 1ns);
    EXPECT_EQ(timers_->run_due(at(-3ns)), 0U);
    EXPECT_EQ(timers_->run_due(at(-2ns)), 1U);
    EXPECT_EQ(timers_->remaining(far), duration::max());
    timers_->run_due(at(5ns));
    EXPECT_EQ(timers_->remaining(far), duration::max() - 6ns);
    EXPECT_EQ(timers_->run_due(last_time), 1U);
}

TEST_F(LocalTimers, RefusesAResolutionBelowOneNanosecond) {
    EXPECT_THROW(local_timers({.resolution = 0ns}), std::invalid_argument);
    EXPECT_THROW(local_timers({.resolution = -1ms}), std::invalid_argument);
    EXPECT_THROW(local_timers({.resolution = duration::min()}), std::invalid_argument);
    EXPECT_THROW(local_timers({.start = never}), std::invalid_argument);
}

TEST_F(LocalTimers, TakesTheCoarsestResolution) {
    make({.resolution = duration::max()});
    timers_->schedule_at(at(1ns), note(1));
    timers_->schedule_at(last_time, note(2));
    timers_->schedule_every(1ns, note(3));
    EXPECT_EQ(timers_->next_expiry(), last_time);
    EXPECT_EQ(timers_->run_due(last_time - 1ns), 0U);
    EXPECT_EQ(timers_->run_due(last_time), 2U) << "no later time will come";
    EXPECT_EQ(ran(), (names{1, 2}));
    EXPECT_EQ(timers_->size(), 1U) << "a period of one tick is longer than time";
    EXPECT_EQ(timers_->next_expiry(), never);
}

// More of it, at random: tests/property/local_timers_property.cpp.
TEST_F(LocalTimers, RunsWhatItAnnounces) {
    for (const duration resolution : {duration(1), duration(7), duration(1h)}) {
        make({.resolution = resolution});
        timers_->schedule_at(never, note(0));
        timers_->schedule_at(at(90ns), note(1));
        timers_->schedule_at(last_time, note(2));
        timers_->schedule_between(at(3h), never, note(3));
        timers_->schedule_every(duration::max() - 1h, note(4));
        std::size_t count = 0;
        while (timers_->next_expiry() != never) {
            const time_point next = timers_->next_expiry();
            ASSERT_GT(timers_->run_due(next), 0U);
            EXPECT_EQ(timers_->now(), next);
            count += ran().size();
        }
        EXPECT_EQ(count, 4U);
        EXPECT_EQ(timers_->size(), 2U) << "what is left is for never";
    }
}

// A bound may be early, but it moves on.
TEST_F(LocalTimers, CanBeDrivenByBounds) {
    std::vector<timer_id> ids;
    for (int i = 0; i < 300; ++i)
        ids.push_back(timers_->schedule_at(at(duration(5000 + i * 7919 % 100'003)), note(i)));
    timers_->schedule_at(never, note(-1));
    for (std::size_t i = 0; i < ids.size(); i += 3)
        timers_->cancel(ids[i]);
    std::size_t calls = 0;
    while (timers_->next_bound() != never) {
        ASSERT_LT(++calls, 1000U);
        timers_->run_due(timers_->next_bound());
    }
    EXPECT_EQ(ran().size(), 200U);
}

TEST_F(LocalTimers, TellsTheNextDeadlineExactlyAndABoundThatIsNotLate) {
    EXPECT_EQ(timers_->next_bound(), never);
    EXPECT_EQ(timers_->next_expiry(), never);
    std::mt19937_64 random(3);
    std::map<time_point, timer_id> pending;
    for (int i = 0; i < 300; ++i) {
        const time_point deadline = at(duration(1 + random() % 1'000'000));
        if (!pending.contains(deadline)) {
            pending[deadline] = timers_->schedule_at(deadline, note(i));
        }
    }
    while (!pending.empty()) {
        ASSERT_EQ(timers_->next_expiry(), pending.begin()->first);
        ASSERT_LE(timers_->next_bound(), pending.begin()->first);
        const auto gone = random() % 2 == 0 ? pending.begin() : std::prev(pending.end());
        ASSERT_EQ(timers_->cancel(gone->second), cancel_result::cancelled);
        pending.erase(gone);
    }
    EXPECT_EQ(timers_->next_expiry(), never);
}

// ---- order ------------------------------------------------------------------------------------

TEST_F(LocalTimers, KeepsDeadlineOrder) {
    timers_->schedule_at(at(30ns), note(4));
    timers_->schedule_at(at(10ns), note(1));
    timers_->schedule_at(at(20ns), note(2));
    timers_->schedule_at(at(20ns), note(3));
    timers_->schedule_at(at(1h), note(6));
    timers_->schedule_at(at(30ns), note(5));
    EXPECT_EQ(run(2h), (names{1, 2, 3, 4, 5, 6}));
}

TEST_F(LocalTimers, TheNextTickKeepsTheOrderOfScheduling) {
    make({.resolution = 1ms});
    timers_->schedule_at(at(900us), note(1));
    timers_->schedule_at(at(100us), note(2));
    timers_->schedule_at(at(500us), note(3));
    EXPECT_EQ(run(1ms), (names{1, 2, 3})) << "inside a tick there is no before";
}

TEST_F(LocalTimers, RunsAtMostItsBudgetAndGoesOn) {
    for (int i = 0; i < 10; ++i)
        timers_->schedule_at(at(duration(1 + i / 2)), note(i));
    EXPECT_EQ(run(1s, 0), names{});
    EXPECT_EQ(timers_->now(), at(1s));
    EXPECT_EQ(run(1s, 3), (names{0, 1, 2}));
    EXPECT_EQ(timers_->size(), 7U);
    timers_->schedule_at(at(1ns), note(10));  // counts as scheduled at now: after what is due
    EXPECT_EQ(run(1s, 3), (names{3, 4, 5}));
    EXPECT_EQ(run(1s), (names{6, 7, 8, 9, 10}));
}

// Random programs against a sorted list: what runs, in which order, and what each call says.
TEST_F(LocalTimers, IsWhatASortedListIs) {
    struct expected {
        std::uint64_t due;  // in ticks
        std::uint64_t order;
        timer_id id;
        int name;
    };
    for (unsigned seed = 1; seed <= 8; ++seed) {
        const auto resolution = seed % 2 == 0 ? 1U : 7U;
        make({.resolution = duration(resolution)});
        std::mt19937_64 random(seed);
        std::vector<expected> list;
        std::vector<timer_id> over;
        std::uint64_t order = 0;
        std::uint64_t now = 0;
        const auto due_of = [&](std::uint64_t time) {
            return std::max((time + resolution - 1) / resolution, now / resolution);
        };
        const auto sooner = [](const expected& a, const expected& b) {
            return a.due != b.due ? a.due < b.due : a.order < b.order;
        };
        for (int step = 0; step < 3000; ++step) {
            const std::uint64_t time = now + (random() >> (44 + random() % 20)) - random() % 3;
            const auto when = at(duration(static_cast<std::int64_t>(std::max(time, now / 2))));
            const auto ticks = due_of(std::max(time, now / 2));
            const auto dice = random() % 10;
            if (dice < 4) {
                const timer_id id = timers_->schedule_at(when, note(step));
                list.push_back({ticks, order++, id, step});
            } else if (dice < 6 && !list.empty()) {
                const auto which = list.begin() + static_cast<long>(random() % list.size());
                ASSERT_EQ(timers_->cancel(which->id), cancel_result::cancelled);
                over.push_back(which->id);
                list.erase(which);
            } else if (dice < 8 && !list.empty()) {
                expected& which = list[random() % list.size()];
                ASSERT_EQ(timers_->reschedule(which.id, when), reschedule_result::pending);
                which.due = ticks;
                which.order = order++;
            } else {
                now += random() >> (44 + random() % 20);
                const std::size_t budget = random() % 2 == 0 ? random() % 5 : no_budget;
                std::sort(list.begin(), list.end(), sooner);
                names want;
                while (!list.empty() && list.front().due <= now / resolution &&
                       want.size() < budget) {
                    want.push_back(list.front().name);
                    over.push_back(list.front().id);
                    list.erase(list.begin());
                }
                ASSERT_EQ(run(duration(static_cast<std::int64_t>(now)), budget), want);
            }
            ASSERT_EQ(timers_->size(), list.size());
            if (!over.empty()) {
                const timer_id stale = over[random() % over.size()];
                ASSERT_EQ(timers_->cancel(stale), cancel_result::gone);
            }
        }
        EXPECT_GT(over.size(), 500U);
    }
}

TEST_F(LocalTimers, TimersWithSlackMeet) {
    timers_->schedule_between(at(1000ns), at(1100ns), note(1));  // 1024 is the roundest
    timers_->schedule_between(at(1020ns), at(1200ns), note(2));
    timers_->schedule_between(at(900ns), at(1030ns), note(3));
    timers_->schedule_between(at(1024ns), at(1024ns), note(4));
    EXPECT_EQ(timers_->next_expiry(), at(1024ns));
    EXPECT_EQ(run(1023ns), names{});
    EXPECT_EQ(run(1024ns), (names{1, 2, 3, 4})) << "one wake-up serves them all";
}

TEST_F(LocalTimers, SlackStaysInItsRange) {
    std::mt19937_64 random(4);
    for (const duration resolution : {1ns, 10ns}) {
        make({.resolution = resolution});
        for (int i = 0; i < 2000; ++i) {
            const time_point earliest = timers_->now() + duration(random() % 1000);
            const time_point latest = earliest + duration(random() % 1000);
            const timer_id id = timers_->schedule_between(earliest, latest, note(i));
            const time_point due = timers_->now() + timers_->remaining(id).value();
            ASSERT_GE(due, earliest);
            ASSERT_LT(due, std::max(latest + 1ns, earliest + resolution));
            timers_->cancel(id);
            timers_->run_due(timers_->now() + duration(random() % 20));
        }
    }
}

TEST_F(LocalTimers, AnEmptyRangeIsItsStart) {
    timers_->schedule_between(at(100ns), at(50ns), note(1));
    EXPECT_EQ(timers_->next_expiry(), at(100ns));
    run(200ns);
    timers_->schedule_between(at(100ns), at(150ns), note(2));
    EXPECT_EQ(run(200ns), names{2}) << "a range that is over is now";
    const timer_id id = timers_->schedule_between(never, never, note(3));
    EXPECT_EQ(timers_->remaining(id), duration::max());
}

// ---- cancel, reschedule, remaining ------------------------------------------------------------

TEST_F(LocalTimers, FreesCallbackOnCancel) {
    const auto token = std::make_shared<int>(0);
    const timer_id once = timers_->schedule_at(at(1h), [token] {});
    const timer_id periodic = timers_->schedule_every(1h, [token] {});
    const timer_id large = timers_->schedule_at(
        never, [token, bulk = std::array<char, 500>{}] { static_cast<void>(bulk); });
    EXPECT_EQ(token.use_count(), 4);
    EXPECT_EQ(timers_->cancel(once), cancel_result::cancelled);
    EXPECT_EQ(token.use_count(), 3);
    EXPECT_EQ(timers_->cancel(periodic), cancel_result::cancelled);
    EXPECT_EQ(token.use_count(), 2);
    EXPECT_EQ(timers_->cancel(large), cancel_result::cancelled);
    EXPECT_EQ(token.use_count(), 1);
    EXPECT_EQ(timers_->size(), 0U);
    EXPECT_EQ(run(3h), names{});
}

TEST_F(LocalTimers, FreesCallbackWhenItHasRunAndWhenItIsDropped) {
    const auto token = std::make_shared<int>(0);
    timers_->schedule_at(at(1ns), [token] {});
    timers_->run_due(at(1ns));
    EXPECT_EQ(token.use_count(), 1);
    timers_->schedule_at(at(1h), [token] {});
    timers_->clear();
    EXPECT_EQ(token.use_count(), 1);
    timers_->schedule_at(at(1h), [token] {});
    timers_->schedule_at(never, [token] {});
    timers_->schedule_every(1h, [token] {});
    timers_.reset();
    EXPECT_EQ(token.use_count(), 1);
}

TEST_F(LocalTimers, StaleIdsAreHarmless) {
    const auto names_nothing = [&](timer_id id) {
        return timers_->cancel(id) == cancel_result::gone &&
               timers_->reschedule(id, at(1s)) == reschedule_result::gone &&
               timers_->remaining(id) == std::nullopt;
    };
    EXPECT_TRUE(names_nothing({})) << "the empty id";

    std::vector<timer_id> stale;
    const timer_id cancelled = timers_->schedule_at(at(1h), note(1));
    timers_->cancel(cancelled);
    stale.push_back(cancelled);
    stale.push_back(timers_->schedule_at(at(1ns), note(2)));
    EXPECT_EQ(run(1ns), names{2});
    stale.push_back(timers_->schedule_at(at(1h), note(3)));
    timers_->clear();
    {
        local_timers other;
        stale.push_back(other.schedule_at(at(1h), note(4)));
        EXPECT_TRUE(names_nothing(stale.back())) << "of another object";
        EXPECT_EQ(other.size(), 1U);
    }
    local_timers other;
    for (int i = 0; i < 100; ++i)
        stale.push_back(other.schedule_at(at(1h), note(5)));

    // The same slots are used again and again: no id of before comes to life.
    std::vector<timer_id> alive;
    for (int i = 0; i < 3000; ++i) {
        const timer_id id = timers_->schedule_at(at(1h), note(6));
        if (i % 3 == 0) {
            alive.push_back(id);
        } else {
            EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
            stale.push_back(id);
        }
        if (i % 500 == 0) timers_->trim();
    }
    for (const timer_id id : stale)
        ASSERT_TRUE(names_nothing(id));
    std::mt19937_64 random(5);
    for (int i = 0; i < 100'000; ++i)
        ASSERT_TRUE(names_nothing(timer_id(random())));
    for (const timer_id id : alive)
        ASSERT_EQ(timers_->remaining(id), 1h - 1ns);
    EXPECT_EQ(timers_->size(), alive.size());
    EXPECT_EQ(other.size(), 100U);
}

TEST_F(LocalTimers, CancelsOnce) {
    const timer_id id = timers_->schedule_at(at(1h), note(1));
    EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
    EXPECT_EQ(timers_->cancel(id), cancel_result::gone);
    EXPECT_EQ(timers_->reschedule(id, at(2h)), reschedule_result::gone);
}

TEST_F(LocalTimers, ReschedulesAndKeepsTheId) {
    const timer_id id = timers_->schedule_at(at(1h), note(1));
    EXPECT_EQ(timers_->reschedule(id, at(10ns)), reschedule_result::pending) << "forward";
    EXPECT_EQ(timers_->remaining(id), 10ns);
    EXPECT_EQ(timers_->reschedule(id, at(30ns)), reschedule_result::pending) << "and back";
    EXPECT_EQ(run(29ns), names{});
    EXPECT_EQ(timers_->reschedule(id, never), reschedule_result::pending);
    EXPECT_EQ(run(1h), names{});
    EXPECT_EQ(timers_->reschedule(id, at(5ns)), reschedule_result::pending) << "a past deadline";
    EXPECT_EQ(timers_->remaining(id), 0ns);
    EXPECT_EQ(run(1h), names{1});
    EXPECT_EQ(timers_->reschedule(id, at(2h)), reschedule_result::gone);
    EXPECT_EQ(timers_->size(), 0U);
}

TEST_F(LocalTimers, TellsWhatRemains) {
    const timer_id id = timers_->schedule_at(at(100ns), note(1));
    const timer_id other = timers_->schedule_at(at(100ns), note(2));
    EXPECT_EQ(timers_->remaining(id), 100ns);
    run(40ns);
    EXPECT_EQ(timers_->remaining(id), 60ns);
    run(150ns, 0);
    EXPECT_EQ(timers_->remaining(id), 0ns) << "due, and not yet run";
    run(150ns, 1);
    EXPECT_EQ(timers_->remaining(id), std::nullopt);
    EXPECT_EQ(timers_->remaining(other), 0ns);
}

// ---- limits -----------------------------------------------------------------------------------

TEST_F(LocalTimers, RefusesMoreThanMaxTimers) {
    make({.max_timers = 3});
    const auto token = std::make_shared<int>(0);
    std::vector<timer_id> ids;
    for (int i = 0; i < 3; ++i)
        ids.push_back(timers_->schedule_at(at(1h), note(i)));
    EXPECT_FALSE(timers_->schedule_at(at(1h), [token] {}));
    EXPECT_FALSE(timers_->schedule_after(1h, [token] {}));
    EXPECT_FALSE(timers_->schedule_between(at(1h), at(2h), [token] {}));
    EXPECT_FALSE(timers_->schedule_every(1h, [token] {}));
    EXPECT_EQ(token.use_count(), 1) << "what is refused is destroyed";
    EXPECT_EQ(timers_->stats().rejected, 4U);
    EXPECT_EQ(timers_->stats().scheduled, 3U);
    timers_->cancel(ids[1]);
    EXPECT_TRUE(timers_->schedule_at(at(1h), note(3)));
    EXPECT_FALSE(timers_->schedule_at(at(1h), note(4)));
    EXPECT_EQ(run(1h), (names{0, 2, 3}));
    EXPECT_TRUE(timers_->schedule_at(at(2h), note(5)));
}

TEST_F(LocalTimers, ATimerThatRunsForTheLastTimeHasMadeRoom) {
    make({.max_timers = 1});
    int runs = 0;
    std::function<void()> again = [&] {
        ++runs;
        EXPECT_TRUE(timers_->schedule_after(10ns, [&] { again(); }));
        EXPECT_FALSE(timers_->schedule_after(10ns, [] {})) << "but for one only";
    };
    timers_->schedule_after(10ns, [&] { again(); });
    for (int i = 1; i <= 5; ++i)
        timers_->run_due(at(10ns * i));
    EXPECT_EQ(runs, 5);
    EXPECT_EQ(timers_->size(), 1U);
}

TEST_F(LocalTimers, APeriodicTimerKeepsItsRoomWhileItRuns) {
    make({.max_timers = 1});
    timer_id id;
    int runs = 0;
    id = timers_->schedule_every(10ns, [&] {
        if (++runs < 3) {
            EXPECT_FALSE(timers_->schedule_after(1ns, [] {}));
        } else {
            EXPECT_EQ(timers_->cancel(id), cancel_result::running);
            EXPECT_TRUE(timers_->schedule_after(1h, [] {})) << "it is over, and gave its room";
        }
    });
    for (int i = 1; i <= 5; ++i)
        timers_->run_due(at(10ns * i));
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(timers_->size(), 1U);
}

TEST_F(LocalTimers, OfNoTimersRefusesAll) {
    make({.max_timers = 0});
    EXPECT_FALSE(timers_->schedule_at(at(1ns), note(1)));
    EXPECT_EQ(run(1h), names{});
}

TEST_F(LocalTimers, TrimKeepsWhatIsPending) {
    std::vector<timer_id> ids;
    for (int i = 0; i < 5000; ++i)
        ids.push_back(timers_->schedule_at(at(1h), note(i)));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i != 4321) timers_->cancel(ids[i]);
    }
    timers_->trim();
    EXPECT_EQ(timers_->remaining(ids[4321]), 1h);
    timers_->schedule_at(at(1h), [this] { timers_->trim(); });
    timers_->schedule_at(at(1h), note(-1));
    EXPECT_EQ(timers_->run_due(at(1h)), 3U);
    EXPECT_EQ(ran(), (names{4321, -1}));
    timers_->trim();
    EXPECT_EQ(timers_->size(), 0U);
}

TEST_F(LocalTimers, CountsWhatItDoes) {
    make({.max_timers = 6});
    std::vector<timer_id> ids;
    for (int i = 1; i <= 6; ++i)
        ids.push_back(timers_->schedule_at(at(duration(i)), note(i)));
    timers_->schedule_at(at(1ns), note(7));
    timers_->cancel(ids[0]);
    timers_->cancel(ids[0]);
    timers_->reschedule(ids[1], at(3ns));
    timers_->reschedule(ids[0], at(3ns));
    run(4ns);
    timers_->schedule_every(10ns, note(8), missed_ticks::burst);
    run(34ns);
    EXPECT_EQ(timers_->size(), 1U);
    timers_->schedule_at(at(1h), note(9));
    timers_->clear();
    timers_->schedule_at(at(1h), note(10));

    struct told {
        std::string name;
        stat_kind kind;
        std::uint64_t value;
        bool operator==(const told&) const = default;
    };
    std::vector<told> all;
    timers_->stats().visit(
        [&](const char* name, stat_kind kind, std::uint64_t value, const char* help) {
            all.push_back({name, kind, value});
            EXPECT_NE(std::string(help), "");
        });
    EXPECT_EQ(all, (std::vector<told>{
                       {"scheduled", stat_kind::counter, 9},
                       {"cancelled", stat_kind::counter, 1},
                       {"rescheduled", stat_kind::counter, 1},
                       {"fired", stat_kind::counter, 8},
                       {"dropped", stat_kind::counter, 2},
                       {"rejected", stat_kind::counter, 1},
                       {"pending", stat_kind::gauge, 1},
                   }));
    static_assert(stats_snapshot<timer_stats>);
}

// ---- from inside a callback -------------------------------------------------------------------

// What the callback of the second of four timers does, or the destructor of what it captured.
struct deed {
    const char* name;
    std::function<void()> act;
    std::vector<int> then;   // what else runs in the same run_due()
    std::vector<int> later;  // and in the next one, an hour on
};

TEST_F(LocalTimers, CallbackMayDoAnything) {
    std::array<timer_id, 4> ids;
    const auto schedule = [&](time_point when, int name) {
        EXPECT_TRUE(timers_->schedule_at(when, note(name)));
    };
    const auto cancel = [&](std::size_t which, cancel_result expected) {
        return [&, which, expected] { EXPECT_EQ(timers_->cancel(ids[which]), expected); };
    };
    const auto put_off = [&](std::size_t which, reschedule_result expected) {
        return
            [&, which, expected] { EXPECT_EQ(timers_->reschedule(ids[which], at(2h)), expected); };
    };
    const auto ask = [&] {
        EXPECT_EQ(timers_->remaining(ids[0]), std::nullopt);
        EXPECT_EQ(timers_->remaining(ids[1]), std::nullopt);
        EXPECT_EQ(timers_->remaining(ids[2]), 0ns);
        EXPECT_EQ(timers_->size(), 2U);
        EXPECT_EQ(timers_->now(), at(1h));
    };
    const auto run_due = [&] {
        EXPECT_EQ(timers_->run_due(at(9h)), 0U);
        EXPECT_EQ(timers_->now(), at(1h)) << "it does nothing";
    };
    const auto clear_and_schedule = [&] {
        timers_->clear();
        schedule(at(1ns), 8);
        schedule(at(2h), 9);
    };
    const std::vector<deed> deeds = {
        {"nothing", [] {}, {2, 3}, {}},
        {"schedules for later", [&] { schedule(at(2h), 9); }, {2, 3}, {9}},
        {"schedules for now", [&] { schedule(at(1h), 9); }, {2, 3}, {9}},
        {"schedules for the past", [&] { schedule(at(0ns), 9); }, {2, 3}, {9}},
        {"cancels itself", cancel(1, cancel_result::running), {2, 3}, {}},
        {"cancels one that ran", cancel(0, cancel_result::gone), {2, 3}, {}},
        {"cancels the next", cancel(2, cancel_result::cancelled), {3}, {}},
        {"cancels the last", cancel(3, cancel_result::cancelled), {2}, {}},
        {"puts itself off", put_off(1, reschedule_result::running), {2, 3}, {}},
        {"puts the next off", put_off(2, reschedule_result::pending), {3}, {2}},
        {"asks", ask, {2, 3}, {}},
        {"runs what is due", run_due, {2, 3}, {}},
        {"trims", [&] { timers_->trim(); }, {2, 3}, {}},
        {"clears", [&] { timers_->clear(); }, {}, {}},
        {"clears and schedules", clear_and_schedule, {}, {8, 9}},
        {"destroys the object", [&] { timers_.reset(); }, {}, {}},
    };

    const auto schedule_all = [&](duration step, const deed& d, bool by_destructor) {
        for (std::size_t i = 0; i < 4; ++i) {
            const int name = static_cast<int>(i);
            callback fn = note(name);
            if (i == 1 && by_destructor) {
                fn = [this, end = at_end(d.act)] { ran_.push_back(1); };
            } else if (i == 1) {
                fn = [this, &d] {
                    ran_.push_back(1);
                    d.act();
                };
            }
            ids[i] = timers_->schedule_at(at(1s + step * name), std::move(fn));
        }
    };
    for (const duration step : {0ns, 1ns, 100'000ns}) {  // one tick, neighbours, other levels
        for (const deed& d : deeds) {
            for (const bool by_destructor : {false, true}) {
                SCOPED_TRACE(std::string(d.name) + (by_destructor ? ", by a destructor" : ""));
                // By then the timer is over: see ADestructorSeesItsTimerOver.
                if (by_destructor && std::string(d.name).ends_with("s itself")) continue;
                if (by_destructor && std::string(d.name).ends_with("itself off")) continue;
                timers_.emplace();
                schedule_all(step, d, by_destructor);
                names want = {0, 1};
                want.insert(want.end(), d.then.begin(), d.then.end());
                EXPECT_EQ(timers_->run_due(at(1h)), want.size());
                EXPECT_EQ(ran(), want);
                if (!timers_) continue;
                timers_->run_due(at(2h));
                EXPECT_EQ(ran(), d.later);
                EXPECT_EQ(timers_->size(), 0U);
            }
        }
    }
}

TEST_F(LocalTimers, CancelInsideItsOwnCallbackSaysRunning) {
    timer_id once;
    timer_id periodic;
    once = timers_->schedule_at(at(10ns), [&] {
        EXPECT_EQ(timers_->cancel(once), cancel_result::running);
        EXPECT_EQ(timers_->cancel(once), cancel_result::running) << "and again";
    });
    int runs = 0;
    const auto token = std::make_shared<int>(0);
    periodic = timers_->schedule_every(
        10ns,
        [&, token] {
            if (++runs < 3) return;
            EXPECT_EQ(timers_->cancel(periodic), cancel_result::running);
            EXPECT_EQ(timers_->reschedule(periodic, at(1h)), reschedule_result::running);
            EXPECT_EQ(token.use_count(), 2) << "a running callback is not destroyed";
        },
        missed_ticks::burst);
    timers_->run_due(at(100ns));
    EXPECT_EQ(runs, 3) << "no further runs, neither missed ones nor later ones";
    EXPECT_EQ(token.use_count(), 1);
    EXPECT_EQ(timers_->cancel(periodic), cancel_result::gone);
    EXPECT_EQ(timers_->cancel(once), cancel_result::gone);
    EXPECT_EQ(timers_->stats().cancelled, 0U);
    timers_->run_due(at(1h));
    EXPECT_EQ(runs, 3);
}

TEST_F(LocalTimers, ClearInsideAPeriodicCallbackEndsIt) {
    int runs = 0;
    timers_->schedule_every(10ns, [&] {
        if (++runs == 2) timers_->clear();
    });
    timers_->schedule_at(at(1h), note(1));
    for (int i = 1; i < 10; ++i)
        timers_->run_due(at(10ns * i));
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(timers_->size(), 0U);
    EXPECT_EQ(timers_->stats().dropped, 1U);
}

TEST_F(LocalTimers, APeriodicCallbackMayDestroyTheObject) {
    const auto token = std::make_shared<int>(0);
    for (const missed_ticks policy :
         {missed_ticks::burst, missed_ticks::delay, missed_ticks::skip}) {
        make({});
        timers_->schedule_every(
            10ns, [this, token] { timers_.reset(); }, policy);
        timers_->schedule_at(at(10ns), [token] { FAIL(); });
        EXPECT_EQ(timers_->run_due(at(100ns)), 1U);
        EXPECT_EQ(token.use_count(), 1);
    }
}

TEST_F(LocalTimers, ATimerThatReschedulesItselfForNowDoesNotLoop) {
    int runs = 0;
    std::function<void()> again = [&] {
        ++runs;
        timers_->schedule_after(0ns, [&] { again(); });
    };
    again();
    for (int i = 1; i <= 5; ++i) {
        EXPECT_EQ(timers_->run_due(at(1s)), 1U);
        EXPECT_EQ(runs, 1 + i);
    }
}

// ---- exceptions -------------------------------------------------------------------------------

TEST_F(LocalTimers, SurvivesAThrowingCallback) {
    timers_->schedule_at(at(10ns), note(1));
    const timer_id bad = timers_->schedule_at(at(20ns), [] { throw std::runtime_error("bad"); });
    timers_->schedule_at(at(20ns), note(2));
    timers_->schedule_at(at(30ns), note(3));
    EXPECT_THROW(timers_->run_due(at(1s)), std::runtime_error);
    EXPECT_EQ(ran(), names{1});
    EXPECT_EQ(timers_->size(), 2U) << "the others are not over";
    EXPECT_EQ(timers_->cancel(bad), cancel_result::gone) << "the timer is";
    EXPECT_EQ(run(1s), (names{2, 3}));
}

TEST_F(LocalTimers, APeriodicTimerThatThrowsIsOver) {
    int runs = 0;
    const auto token = std::make_shared<int>(0);
    const timer_id bad = timers_->schedule_every(
        10ns,
        [&, token] {
            if (++runs == 3) throw std::runtime_error("bad");
        },
        missed_ticks::burst);
    timers_->schedule_at(at(35ns), note(1));
    EXPECT_THROW(timers_->run_due(at(100ns)), std::runtime_error);
    EXPECT_EQ(token.use_count(), 1);
    EXPECT_EQ(timers_->cancel(bad), cancel_result::gone);
    EXPECT_EQ(run(1h), names{1});
    EXPECT_EQ(runs, 3);
}

TEST_F(LocalTimers, ACallbackMayDestroyTheObjectAndThrow) {
    const auto token = std::make_shared<int>(0);
    timers_->schedule_at(at(10ns), [this, token] {
        timers_.reset();
        throw std::runtime_error("bad");
    });
    timers_->schedule_at(at(10ns), [token] { FAIL(); });
    local_timers& timers = *timers_;
    EXPECT_THROW(timers.run_due(at(1s)), std::runtime_error);
    EXPECT_EQ(token.use_count(), 1);
}

TEST_F(LocalTimers, ADestructorMayScheduleWhileAnExceptionPasses) {
    timers_->schedule_at(at(10ns), [end = at_end([&] { timers_->schedule_after(1ns, note(1)); })] {
        throw std::runtime_error("bad");
    });
    EXPECT_THROW(timers_->run_due(at(1s)), std::runtime_error);
    EXPECT_EQ(run(2s), names{1});
}

TEST_F(LocalTimers, AThrowOutOfABudgetedRunGoesOnWhereItWas) {
    for (int i = 0; i < 6; ++i) {
        timers_->schedule_at(at(duration(i)), [this, i] {
            ran_.push_back(i);
            if (i % 2 == 0) throw i;
        });
    }
    for (int i = 0; i < 6; i += 2) {
        EXPECT_THROW(timers_->run_due(at(1s), 4), int);
    }
    EXPECT_EQ(timers_->run_due(at(1s)), 1U);
    EXPECT_EQ(ran(), (names{0, 1, 2, 3, 4, 5}));
}

TEST_F(LocalTimers, RefusesAnEmptyFunction) {
    void (*const nothing)() = nullptr;
    EXPECT_THROW(timers_->schedule_at(at(1ns), callback()), std::invalid_argument);
    EXPECT_THROW(timers_->schedule_after(1ns, nothing), std::invalid_argument);
    EXPECT_THROW(timers_->schedule_between(at(1ns), at(2ns), nothing), std::invalid_argument);
    EXPECT_THROW(timers_->schedule_every(1ns, nothing), std::invalid_argument);
    EXPECT_EQ(timers_->size(), 0U);
    EXPECT_EQ(timers_->stats().scheduled, 0U);
}

}  // namespace
}  // namespace verge
