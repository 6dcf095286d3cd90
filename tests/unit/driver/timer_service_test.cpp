// The timer service in virtual time: what its header promises, and each of its operations.
// Room and memory: timer_service_memory_test.cpp.

#include "unit/driver/timer_service_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

namespace verge {
namespace {

// ---- the guarantees of the header ----

TEST_F(TimerService, NeverCollectsEarly) {
    std::mt19937_64 random(1);
    for (const std::size_t shards : {1U, 3U, 16U}) {
        make({.shards = shards});
        struct shot {
            time_point deadline;
            time_point ran = never;
        };
        std::vector<shot> shots(2000);
        time_point now{};
        for (std::size_t part = 0; part < 4; ++part) {
            on_own_thread([&] {
                for (std::size_t i = part; i < shots.size(); i += 4) {
                    shot& s = shots[i];
                    s.deadline = at(duration(random() % 5000));
                    timers_->arm(s.deadline, [&s, &now] { s.ran = now; });
                }
            });
        }
        for (time_point before{}; timers_->stats().pending > 0; before = now) {
            now += duration(random() % 40);
            due_timer batch[7];
            for (;;) {
                const std::size_t count = timers_->collect(now, batch, std::size(batch));
                if (count == 0) break;
                for (std::size_t i = 0; i < count; ++i) {
                    ASSERT_LE(batch[i].deadline, now.time_since_epoch().count());
                    ASSERT_TRUE(fire(batch[i]));
                }
            }
            for (const shot& s : shots) {
                if (s.ran != now) continue;
                ASSERT_GE(now, s.deadline) << "early";
                ASSERT_TRUE(before < s.deadline || before == now || before == time_point{})
                    << "forgotten";
            }
        }
        for (const shot& s : shots)
            ASSERT_NE(s.ran, never);
    }
}

// Threads that arm, cancel and move timers, one that collects, and at last a close().
TEST_F(TimerService, ExactlyOneEnd) {
    constexpr int threads = 4;
    constexpr std::size_t each = detail::has_tsan ? 3000 : 10'000;
    struct record {
        std::atomic<int> runs{0};
        std::atomic<int> cancels{0};
        std::atomic<int> alive{0};
    };
    make({.shards = 3});
    std::vector<record> records(threads * each);
    std::atomic<int> working{threads};
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
            std::mt19937_64 random(t);
            std::vector<std::pair<record*, timer_id>> mine;
            for (std::size_t i = 0; i < each; ++i) {
                record& r = records[t * each + i];
                const auto id = timers_->arm(at(duration(random() % 1000)),
                                             [&r, c = counted(r.alive)] { ++r.runs; });
                mine.emplace_back(&r, id);
                const auto& [other, its_id] = mine[random() % mine.size()];
                if (random() % 2 == 0) {
                    timers_->rearm(its_id, at(duration(random() % 1000)));
                } else if (timers_->cancel(its_id) == cancel_result::cancelled) {
                    ++other->cancels;
                }
            }
            --working;
        });
    }
    for (int time = 0; working > 0; time = (time + 1) % 900) {
        timers_->run_due(at(duration(time)));
    }
    for (std::thread& worker : workers)
        worker.join();
    const timer_stats before = timers_->stats();
    timers_->close();
    std::uint64_t dropped = 0;
    for (const record& r : records) {
        ASSERT_EQ(r.alive, 0) << "every callback is destroyed";
        ASSERT_LE(r.runs + r.cancels, 1);
        if (r.runs + r.cancels == 0) ++dropped;
    }
    const timer_stats after = timers_->stats();
    EXPECT_EQ(dropped, before.pending);
    EXPECT_EQ(after.dropped, before.pending);
    EXPECT_EQ(after.pending, 0U);
    EXPECT_EQ(after.scheduled, records.size());
    EXPECT_EQ(after.scheduled, after.fired + after.cancelled + after.dropped);
}

TEST_F(TimerService, KeepsDeadlineOrder) {
    for (const std::size_t shards : {1U, 2U, 16U}) {
        make({.shards = shards});
        timers_->arm(at(30ns), note(4));
        timers_->arm(at(10ns), note(1));
        timers_->arm(at(20ns), note(2));
        timers_->arm(at(20ns), note(3));
        timers_->arm(at(1h), note(6));
        timers_->arm(at(30ns), note(5));
        EXPECT_EQ(run(2h), (names{1, 2, 3, 4, 5, 6}));
    }
}

TEST_F(TimerService, KeepsDeadlineOrderOverAllShards) {
    constexpr int threads = 7;
    constexpr int each = 300;
    for (const std::size_t budget : {std::size_t{1}, std::size_t{5}, std::size_t{64}, no_budget}) {
        make({.shards = 4});
        std::mt19937_64 random(2);
        // Many are equal; a thread's own are to stay in their order.
        std::vector<std::pair<std::int64_t, int>> fired;
        for (int thread = 0; thread < threads; ++thread) {
            on_own_thread([&] {
                for (int i = 0; i < each; ++i) {
                    const auto deadline =
                        static_cast<std::int64_t>(1 + (random() >> (54 + random() % 10)));
                    timers_->arm(at(duration(deadline)), [&, deadline, name = thread * each + i] {
                        fired.emplace_back(deadline, name);
                    });
                }
            });
        }
        while (timers_->run_due(at(1s), budget) > 0) {
        }
        ASSERT_EQ(fired.size(), static_cast<std::size_t>(threads * each));
        std::array<std::pair<std::int64_t, int>, threads> last{};
        for (std::size_t i = 1; i < fired.size(); ++i) {
            ASSERT_LE(fired[i - 1].first, fired[i].first);
        }
        for (const auto& [deadline, name] : fired) {
            auto& [last_deadline, last_name] = last[static_cast<std::size_t>(name / each)];
            ASSERT_TRUE(last_deadline != deadline || last_name < name);
            last_deadline = deadline;
            last_name = name;
        }
    }
}

TEST_F(TimerService, FreesPayloadOnCancel) {
    const auto token = std::make_shared<int>(0);
    const timer_id armed = timers_->arm(at(1h), [token] {});
    const timer_id parked = timers_->arm(never, [token] {});
    const timer_id due = timers_->arm(at(1ns), [token] {});
    const timer_id large =
        timers_->arm(at(2h), [token, bulk = std::array<char, 500>{}] { static_cast<void>(bulk); });
    EXPECT_EQ(collect(1ns).size(), 1U);
    EXPECT_EQ(token.use_count(), 5);
    int left = 5;
    for (const timer_id id : {armed, parked, due, large}) {
        EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
        EXPECT_EQ(token.use_count(), --left);
        EXPECT_EQ(timers_->cancel(id), cancel_result::gone);
    }
    const timer_id waited = timers_->arm(at(1h), [token] {});
    EXPECT_EQ(timers_->cancel_and_wait(waited), cancel_result::cancelled);
    EXPECT_EQ(token.use_count(), 1);
}

TEST_F(TimerService, AFarDeadlineIsLookedAtEarly) {
    EXPECT_EQ(timers_->prepare_wait(at(0s)), never);
    timers_->arm(at(64s), note(0));
    EXPECT_EQ(bell_.rung(), 1);
    EXPECT_EQ(timers_->prepare_wait(at(0s)), at(63s));
    timers_->arm(at(64s - 1ns), note(1));
    on_own_thread([&] { timers_->arm(at(63s), note(2)); });
    EXPECT_EQ(bell_.rung(), 0) << "the look comes in time for them";
    on_own_thread([&] { timers_->arm(at(63s - 1ns), note(3)); });
    EXPECT_EQ(bell_.rung(), 1);

    EXPECT_EQ(timers_->prepare_wait(at(62s - 1ns)), at(63s - 1ns)) << "a second away: to the tick";
    EXPECT_EQ(timers_->prepare_wait(at(62s - 2ns)), at(63s - 1ns - 15'625us)) << "just above";
    EXPECT_EQ(timers_->prepare_wait(at(64s)), at(63s - 1ns)) << "it is late already";
    EXPECT_EQ(timers_->prepare_wait(), at(63s - 1ns)) << "who has no clock sleeps to the tick";
}

TEST_F(TimerService, EarlierDeadlineWakes) {
    EXPECT_EQ(timers_->prepare_wait(), never);
    timers_->arm(never, note(0));
    EXPECT_EQ(bell_.rung(), 0) << "never is not earlier than never";
    const timer_id id = timers_->arm(at(1000ns), note(1));
    EXPECT_EQ(bell_.rung(), 1);
    EXPECT_EQ(bell_.last.load(), at(1000ns));

    EXPECT_EQ(timers_->prepare_wait(), at(1000ns));
    timers_->arm(at(1000ns), note(2));
    timers_->arm(at(1001ns), note(3));
    on_own_thread([&] { timers_->arm(at(1000ns), note(4)); });
    on_own_thread([&] { timers_->arm(at(1h), note(5)); });
    EXPECT_EQ(bell_.rung(), 0) << "not earlier";
    timers_->arm(at(999ns), note(6));
    EXPECT_EQ(bell_.rung(), 1) << "in the same shard";
    EXPECT_EQ(timers_->prepare_wait(), at(999ns));
    on_own_thread([&] { timers_->arm(at(998ns), note(7)); });
    EXPECT_EQ(bell_.rung(), 1) << "in another";
    EXPECT_EQ(bell_.last.load(), at(998ns));

    EXPECT_EQ(timers_->prepare_wait(), at(998ns));
    EXPECT_EQ(timers_->rearm(id, at(500ns)), reschedule_result::pending);
    EXPECT_EQ(bell_.rung(), 1) << "moved";
    EXPECT_EQ(timers_->prepare_wait(), at(500ns));
    timers_->arm_between(at(300ns), at(600ns), note(8));
    EXPECT_EQ(bell_.rung(), 0) << "512 is rounder";
    timers_->arm_between(at(300ns), at(400ns), note(8));
    EXPECT_EQ(bell_.rung(), 1);

    EXPECT_EQ(timers_->collect(at(0ns), nullptr, 64), 0U);
    timers_->arm(at(1ns), note(9));
    EXPECT_EQ(bell_.rung(), 0) << "who is awake is not woken";
    EXPECT_EQ(timers_->prepare_wait(), at(1ns));
}

TEST_F(TimerService, ARunThatComesAgainWakes) {
    timers_->arm(at(10ns), note(1));
    const auto batch = collect(10ns);
    ASSERT_EQ(batch.size(), 1U);
    const auto timer = timers_->begin(batch[0]);
    EXPECT_EQ(timers_->prepare_wait(), never);
    tick armed_as = 0;
    timers_->again(timer, at(50ns), armed_as);
    EXPECT_EQ(bell_.rung(), 1);
    EXPECT_EQ(timers_->prepare_wait(), at(50ns));
}

TEST_F(TimerService, WakesTooOftenAtMostOnceForATimerThatWasCancelled) {
    timers_->arm(at(1h), note(1));
    timers_->cancel(timers_->arm(at(10ns), note(2)));
    EXPECT_EQ(timers_->prepare_wait(), at(10ns)) << "not late, perhaps early";
    EXPECT_EQ(collect(10ns).size(), 0U);
    EXPECT_EQ(timers_->prepare_wait(), at(1h)) << "once";
}

// As above, for a timer so far away that it is looked at early.
TEST_F(TimerService, WakesTooOftenAtMostOnceForAFarTimerThatWasCancelled) {
    for (const std::size_t shards : {1U, 3U}) {
        for (const duration away : {duration(1500ms), duration(1h), duration(24h)}) {
            make({.shards = shards});
            std::vector<timer_id> ids;
            for (int i = 0; i < 3; ++i) {  // one in each shard
                on_own_thread([&] { ids.push_back(timers_->arm(at(away), note(i))); });
            }
            const time_point early = timers_->prepare_wait(at(0s));
            ASSERT_LT(early, at(away));
            for (const timer_id id : ids)
                timers_->cancel(id);
            EXPECT_EQ(collect(early.time_since_epoch()).size(), 0U);
            EXPECT_EQ(timers_->prepare_wait(early), never);
        }
    }
}

// What is left after a cancel is not forgotten: neither one that is later, nor one that is armed
// for a time between what was cancelled and what is left.
TEST_F(TimerService, AnEarlyLookForgetsOnlyWhatWasCancelled) {
    make({.shards = 1});
    const timer_id cancelled = timers_->arm(at(64s), note(1));
    timers_->arm(at(100s), note(2));
    EXPECT_EQ(timers_->prepare_wait(at(0s)), at(63s));
    timers_->cancel(cancelled);
    EXPECT_EQ(collect(63s).size(), 0U);
    EXPECT_EQ(timers_->prepare_wait(at(99s)), at(100s));
    bell_.rung();
    timers_->arm(at(99s + 1ns), note(3));
    EXPECT_EQ(bell_.rung(), 1) << "it is the nearest now";
    EXPECT_EQ(run(100s), (names{3, 2}));
}

TEST_F(TimerService, StaleIdsAreHarmless) {
    make({.shards = 3});
    EXPECT_TRUE(names_nothing({})) << "the empty id";
    std::vector<timer_id> stale;
    stale.push_back(timers_->arm(at(1h), note(1)));
    timers_->cancel(stale.back());
    stale.push_back(timers_->arm(at(1ns), note(2)));
    EXPECT_EQ(run(1ns), names{2});
    timer_id dropped = timers_->arm(at(2ns), note(3));
    EXPECT_TRUE(timers_->drop(collect(2ns).at(0)));
    stale.push_back(dropped);
    {
        timer_service other(bell_, {.shards = 3});
        stale.push_back(other.arm(at(1h), note(4)));
        EXPECT_TRUE(names_nothing(stale.back())) << "of another object";
        EXPECT_EQ(other.stats().pending, 1U);
    }
    timer_service other(bell_, {.shards = 3});
    for (int i = 0; i < 100; ++i)
        stale.push_back(other.arm(at(1h), note(5)));

    // The same slots are used again and again: no id of before comes to life.
    std::vector<timer_id> alive;
    for (int i = 0; i < 3000; ++i) {
        const timer_id id = timers_->arm(at(1h), note(6));
        if (i % 3 == 0) {
            alive.push_back(id);
        } else {
            EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
            stale.push_back(id);
        }
        if (i % 500 == 0) timers_->trim();
    }
    on_own_thread([&] {
        for (const timer_id id : stale)
            ASSERT_TRUE(names_nothing(id));
    });
    std::mt19937_64 random(5);
    for (int i = 0; i < 100'000; ++i)
        ASSERT_TRUE(names_nothing(timer_id(random())));
    for (const timer_id id : alive) {
        ASSERT_EQ(timers_->deadline_of(id), at(1h));
        ASSERT_TRUE(names_nothing(timer_id(id.value() ^ (std::uint64_t{1} << 32))));
    }
    EXPECT_EQ(timers_->stats().pending, alive.size());
    EXPECT_EQ(other.stats().pending, 100U);
}

TEST_F(TimerService, NothingIsArmedAfterClose) {
    make({.shards = 4});
    std::atomic<int> alive{0};
    std::vector<timer_id> ids;
    for (int i = 0; i < 300; ++i)
        ids.push_back(timers_->arm(at(duration(i)), [c = counted(alive)] { FAIL(); }));
    on_own_thread([&] { timers_->arm(never, [c = counted(alive)] { FAIL(); }); });
    const auto due = collect(100ns, 10);
    EXPECT_EQ(due.size(), 10U);
    EXPECT_EQ(alive, 301);
    timers_->close();
    EXPECT_EQ(alive, 0) << "armed and due ones are destroyed";
    for (const due_timer& d : due) {
        EXPECT_FALSE(timers_->begin(d));
        EXPECT_FALSE(timers_->drop(d));
    }
    for (const timer_id id : ids)
        EXPECT_TRUE(names_nothing(id));
    EXPECT_FALSE(timers_->arm(at(1ns), [c = counted(alive)] { FAIL(); }));
    EXPECT_FALSE(timers_->arm_between(at(1ns), at(2ns), [c = counted(alive)] { FAIL(); }));
    on_own_thread([&] { EXPECT_FALSE(timers_->arm(at(1ns), callback([] {}))); });
    EXPECT_EQ(alive, 0) << "what is refused is destroyed";
    EXPECT_EQ(run(1h), names{});
    EXPECT_EQ(timers_->prepare_wait(), never);
    timers_->trim();
    timers_->close();
    const timer_stats stats = timers_->stats();
    EXPECT_EQ(stats.dropped, 301U);
    EXPECT_EQ(stats.rejected, 3U);
    EXPECT_EQ(stats.pending, 0U);
}

// ---- time ----

TEST_F(TimerService, RunsAtItsTimeAndOnce) {
    const timer_id id = timers_->arm(at(100ns), note(1));
    EXPECT_TRUE(id);
    EXPECT_EQ(timers_->deadline_of(id), at(100ns));
    EXPECT_EQ(run(99ns), names{});
    EXPECT_EQ(run(100ns), names{1});
    EXPECT_EQ(run(1h), names{});
    EXPECT_TRUE(names_nothing(id));
}

TEST_F(TimerService, PastDeadlinesAreDueAtOnce) {
    make({.start = at(1h)});
    const timer_id before_start = timers_->arm(at(1ns), note(1));
    timers_->arm(time_point{}, note(2));
    timers_->arm(at(-1ns), note(3));
    timers_->arm(time_point::min(), note(4));
    timers_->arm_between(at(1ns), at(2ns), note(5));
    EXPECT_EQ(timers_->deadline_of(before_start), at(1h)) << "it counts as armed at now";
    EXPECT_EQ(timers_->prepare_wait(), at(1h));
    EXPECT_EQ(run(1h), (names{1, 2, 3, 4, 5}));
    timers_->arm(at(1h), note(6));
    timers_->arm(at(30min), note(7));
    EXPECT_EQ(run(1h), (names{6, 7}));
    const timer_id moved = timers_->arm(at(2h), note(8));
    EXPECT_EQ(timers_->rearm(moved, at(-1h)), reschedule_result::pending);
    EXPECT_EQ(run(1h), names{8});
}

TEST_F(TimerService, NegativeTimesCollectNothingThatIsNotPast) {
    timers_->arm(at(1ns), note(1));
    EXPECT_EQ(run(-1h), names{});
    EXPECT_EQ(timers_->run_due(time_point::min()), 0U);
    EXPECT_EQ(run(1ns), names{1});
}

TEST_F(TimerService, NeverIsNeverDueAndTheLastTimeIs) {
    const timer_id id = timers_->arm(never, note(1));
    timers_->arm(last_time, note(2));
    EXPECT_EQ(timers_->deadline_of(id), never);
    EXPECT_EQ(timers_->run_due(last_time - 1ns), 0U);
    EXPECT_EQ(timers_->run_due(last_time), 1U);
    EXPECT_EQ(timers_->run_due(never), 0U);
    EXPECT_EQ(ran(), names{2});
    EXPECT_EQ(timers_->prepare_wait(), never);
    EXPECT_EQ(timers_->stats().pending, 1U);
    EXPECT_EQ(timers_->rearm(id, at(1ns)), reschedule_result::pending) << "and can be moved";
    EXPECT_EQ(timers_->run_due(never), 1U);
}

TEST_F(TimerService, TimersWithSlackMeet) {
    timers_->arm_between(at(1000ns), at(1100ns), note(1));  // 1024 is the roundest
    timers_->arm_between(at(1020ns), at(1200ns), note(2));
    timers_->arm_between(at(900ns), at(1030ns), note(3));
    EXPECT_EQ(timers_->prepare_wait(), at(1024ns));
    EXPECT_EQ(run(1023ns), names{});
    EXPECT_EQ(run(1024ns), (names{1, 2, 3}));
    const timer_id none = timers_->arm_between(at(3us), at(2us), note(4));
    EXPECT_EQ(timers_->deadline_of(none), at(3us)) << "an empty range is its start";
    const timer_id far = timers_->arm_between(never, never, note(5));
    EXPECT_EQ(timers_->deadline_of(far), never);
}

TEST_F(TimerService, AJumpOverADayFindsEverything) {
    make({.shards = 4});
    std::vector<int> order;
    for (int i = 0; i < 1000; ++i) {
        timers_->arm(at(duration(24h) / 1000 * (i + 1)), [&order, i] { order.push_back(i); });
    }
    EXPECT_EQ(timers_->run_due(at(24h)), 1000U);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// ---- budget, and callbacks that throw ----

TEST_F(TimerService, RunsAtMostItsBudgetAndGoesOn) {
    for (int i = 0; i < 200; ++i)
        timers_->arm(at(duration(1 + i / 2)), note(i));
    EXPECT_EQ(run(1s, 0), names{});
    EXPECT_EQ(run(1s, 3), (names{0, 1, 2}));
    EXPECT_EQ(timers_->stats().pending, 197U);
    EXPECT_EQ(run(1s, 130).size(), 130U);
    EXPECT_EQ(run(1s).front(), 133);
    EXPECT_EQ(timers_->stats().pending, 0U);
}

TEST_F(TimerService, ACancelledTimerOfTheBatchIsNotOfTheBudget) {
    std::array<timer_id, 4> ids;
    ids[0] = timers_->arm(at(1ns), [&] {
        ran_.push_back(0);
        timers_->cancel(ids[1]);
    });
    for (int i = 1; i < 4; ++i)
        ids[static_cast<std::size_t>(i)] = timers_->arm(at(1ns), note(i));
    EXPECT_EQ(run(1ns, 2), (names{0, 2}));
    EXPECT_EQ(run(1ns, 2), names{3});
}

TEST_F(TimerService, CollectTakesNoMoreThanThereIsRoom) {
    for (int i = 0; i < 10; ++i)
        timers_->arm(at(duration(1 + i)), note(i));
    EXPECT_EQ(collect(1s, 0).size(), 0U) << "no room, and no endless search";
    EXPECT_EQ(collect(1s, 3).size(), 3U);
    const auto rest = collect(1s, 64);
    ASSERT_EQ(rest.size(), 7U);
    for (const due_timer& due : rest)
        EXPECT_TRUE(fire(due));
    EXPECT_EQ(ran(), (names{3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(TimerService, AThrowingCallbackEndsOnlyItsTimer) {
    for (const std::size_t shards : {1U, 4U}) {
        for (const std::size_t budget : {std::size_t{4}, std::size_t{100}, no_budget}) {
            make({.shards = shards});
            std::vector<timer_id> ids;
            const auto arm = [&](int i) {
                ids.push_back(timers_->arm(at(duration(100 + i)), [this, i] {
                    ran_.push_back(i);
                    if (i % 30 == 10) throw std::runtime_error("bad");
                }));
            };
            // More than one batch, in two shards, so that what is left over must find its place.
            for (int part = 0; part < 2; ++part) {
                on_own_thread([&] {
                    for (int i = part; i < 200; i += 2)
                        arm(i);
                });
            }
            names want(200);
            for (std::size_t i = 0; i < want.size(); ++i)
                want[i] = static_cast<int>(i);
            int thrown = 0;
            for (std::size_t before = 1; before != ran_.size();) {
                before = ran_.size();
                try {
                    timers_->run_due(at(1s), budget);
                } catch (const std::runtime_error&) {
                    ++thrown;
                    EXPECT_EQ(timers_->stats().pending, 200 - ran_.size()) << "the others are not";
                    EXPECT_LE(timers_->prepare_wait(), at(1s)) << "nobody sleeps over them";
                }
            }
            EXPECT_EQ(thrown, 7);
            EXPECT_EQ(ran(), want) << "all run, in order";
            for (const timer_id id : ids)
                EXPECT_TRUE(names_nothing(id));
        }
    }
}

TEST_F(TimerService, WhatAThrowLeftOverIsPending) {
    timers_->arm(at(10ns), [] { throw 1; });
    std::array<timer_id, 5> ids;
    for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = timers_->arm(at(20ns + duration(i)), note(static_cast<int>(i)));
    EXPECT_THROW(timers_->run_due(at(1us)), int);
    EXPECT_EQ(timers_->deadline_of(ids[0]), at(20ns));
    EXPECT_EQ(timers_->cancel(ids[1]), cancel_result::cancelled);
    EXPECT_EQ(timers_->rearm(ids[2], at(2us)), reschedule_result::pending);
    EXPECT_EQ(timers_->prepare_wait(), at(20ns));
    timers_->arm(at(5ns), note(9));  // in the past, so as if it were armed for now
    EXPECT_EQ(run(15ns), names{}) << "nothing is early, also if time goes back";
    EXPECT_EQ(run(1us, 1), names{0});
    EXPECT_EQ(run(1us), (names{3, 4, 9}));
    EXPECT_EQ(timers_->prepare_wait(), at(2us));
    EXPECT_EQ(run(2us), names{2});

    timers_->arm(at(3us), [] { throw 1; });
    timers_->arm(at(3us), note(1));
    timers_->arm(at(3us), note(2));
    EXPECT_THROW(timers_->run_due(at(3us)), int);
    const auto rest = collect(3us, 1);
    ASSERT_EQ(rest.size(), 1U) << "collect() goes on with them, too";
    EXPECT_TRUE(fire(rest[0]));
    EXPECT_EQ(ran(), names{1});
    timers_->close();
    EXPECT_EQ(timers_->stats().dropped, 1U);
    EXPECT_EQ(run(1s), names{});
}

TEST_F(TimerService, ACallbackMayRunWhatIsDue) {
    timers_->arm(at(1ns), [&] {
        ran_.push_back(0);
        EXPECT_EQ(timers_->run_due(at(5ns), 1), 1U);
        ran_.push_back(9);
    });
    timers_->arm(at(1ns), note(1));
    timers_->arm(at(2ns), note(2));
    EXPECT_EQ(timers_->run_due(at(5ns)), 2U);
    EXPECT_EQ(ran(), (names{0, 1, 9, 2}));
}

// ---- what may happen between collect() and the end ----

TEST_F(TimerService, ACollectedTimerThatIsCancelledDoesNotBegin) {
    const timer_id id = timers_->arm(at(10ns), note(1));
    const auto batch = collect(10ns);
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_EQ(batch[0].id, id);
    EXPECT_EQ(batch[0].deadline, 10U);
    EXPECT_EQ(timers_->deadline_of(id), at(10ns));
    EXPECT_EQ(timers_->stats().pending, 1U) << "it has not begun";
    EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
    EXPECT_FALSE(fire(batch[0]));
    const timer_id next = timers_->arm(at(20ns), note(2));  // in the same slot
    EXPECT_FALSE(fire(batch[0]));
    EXPECT_FALSE(timers_->drop(batch[0]));
    EXPECT_EQ(timers_->deadline_of(next), at(20ns));
    EXPECT_EQ(run(20ns), names{2});
}

TEST_F(TimerService, ACollectedTimerThatIsMovedFiresLater) {
    const timer_id id = timers_->arm(at(10ns), note(1));
    const auto batch = collect(10ns);
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_EQ(timers_->rearm(id, at(30ns)), reschedule_result::pending);
    EXPECT_EQ(timers_->deadline_of(id), at(30ns));
    EXPECT_FALSE(fire(batch[0]));
    EXPECT_FALSE(timers_->drop(batch[0])) << "it is not the batch's any more";
    EXPECT_EQ(run(29ns), names{});
    EXPECT_EQ(run(30ns), names{1});
}

TEST_F(TimerService, AnOldEntryDoesNotBeginATimerThatIsDueAnew) {
    const timer_id id = timers_->arm(at(10ns), note(1));
    const auto old = collect(10ns);
    ASSERT_EQ(old.size(), 1U);
    EXPECT_EQ(timers_->rearm(id, at(20ns)), reschedule_result::pending);
    const auto anew = collect(20ns);
    ASSERT_EQ(anew.size(), 1U);
    EXPECT_EQ(anew[0].id, old[0].id);
    EXPECT_FALSE(fire(old[0])) << "its turn is over";
    EXPECT_FALSE(timers_->drop(old[0]));
    EXPECT_TRUE(fire(anew[0]));
    EXPECT_EQ(ran(), names{1});
    EXPECT_FALSE(fire(anew[0]));
}

TEST_F(TimerService, DropsWhatWasCollected) {
    std::atomic<int> alive{0};
    const timer_id id = timers_->arm(at(10ns), [c = counted(alive)] { FAIL(); });
    const auto batch = collect(10ns);
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_TRUE(timers_->drop(batch[0]));
    EXPECT_EQ(alive, 0);
    EXPECT_FALSE(timers_->drop(batch[0]));
    EXPECT_FALSE(fire(batch[0]));
    EXPECT_TRUE(names_nothing(id));
    EXPECT_EQ(timers_->stats().dropped, 1U);

    timers_->arm(at(20ns), note(1));
    const auto begun = collect(20ns);
    const auto timer = timers_->begin(begun.at(0));
    EXPECT_FALSE(timers_->drop(begun[0])) << "it has begun";
    timers_->end(timer);
    EXPECT_EQ(timers_->stats().dropped, 1U);
}

TEST_F(TimerService, ARunningTimerSaysSo) {
    const timer_id id = timers_->arm(at(10ns), note(1));
    const auto timer = timers_->begin(collect(10ns).at(0));
    ASSERT_TRUE(timer);
    EXPECT_EQ(timers_->cancel(id), cancel_result::running);
    EXPECT_EQ(timers_->rearm(id, at(20ns)), reschedule_result::running);
    EXPECT_EQ(timers_->deadline_of(id), std::nullopt);
    EXPECT_EQ(timers_->stats().pending, 0U);
    EXPECT_EQ(timers_->stats().fired, 1U);
    timers_->end(timer);
    EXPECT_TRUE(names_nothing(id));
    EXPECT_EQ(timers_->stats().cancelled, 0U);
    EXPECT_EQ(timers_->stats().rescheduled, 0U);
}

TEST_F(TimerService, EndsOneAndBeginsTheNext) {
    make({.shards = 2});
    std::atomic<int> alive{0};
    timers_->arm(at(10ns), [c = counted(alive)] {});
    timers_->arm(at(11ns), [c = counted(alive)] {});
    on_own_thread([&] { timers_->arm(at(12ns), [c = counted(alive)] {}); });
    on_own_thread([&] { timers_->arm(at(13ns), [c = counted(alive)] {}); });
    const timer_id cancelled = timers_->arm(at(14ns), [c = counted(alive)] { FAIL(); });
    std::vector<due_timer> all;
    for (auto batch = collect(1us); !batch.empty(); batch = collect(1us))
        all.insert(all.end(), batch.begin(), batch.end());
    ASSERT_EQ(all.size(), 5U);
    timers_->cancel(cancelled);
    EXPECT_EQ(alive, 4);
    auto timer = timers_->begin(all[0]);
    for (std::size_t i = 1; i < 4; ++i) {
        timer = timers_->end_and_begin(timer, all[i]);
        ASSERT_TRUE(timer);
        EXPECT_EQ(alive, 4 - static_cast<int>(i));
        EXPECT_TRUE(names_nothing(all[i - 1].id));
        EXPECT_EQ(timers_->cancel(all[i].id), cancel_result::running);
    }
    EXPECT_FALSE(timers_->end_and_begin(timer, all[4]));
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(timers_->stats().fired, 4U);
    timers_->wait_idle();
}

// ---- periodic timers ----

// Each timer is over, and its payload gone, before the next one begins; the last one at the return.
TEST_F(TimerService, DispatchEndsEachBeforeTheNextBegins) {
    const auto alive = std::make_shared<int>(0);
    for (int i = 0; i < 3; ++i)
        timers_->arm(at(1s), [alive] {});
    const long outside = alive.use_count() - 3;
    std::vector<long> seen;
    const auto watch = [&](timer_service::running_timer, const due_timer&) {
        seen.push_back(alive.use_count() - outside);
    };
    EXPECT_EQ(timers_->dispatch_due(at(1s), no_budget, watch), 3U);
    EXPECT_EQ(seen, (std::vector<long>{3, 2, 1}));
    EXPECT_EQ(alive.use_count(), outside);
}

TEST_F(TimerService, DispatchLeavesATimerThatComesAgain) {
    using after_run = timer_service::after_run;
    const timer_id id = timers_->arm(at(1s), note(1));
    tick armed_as = 0;
    const auto again = [&](timer_service::running_timer timer, const due_timer& due) {
        EXPECT_EQ(due.id, id);
        timers_->again(timer, at(2s), armed_as);
        return after_run::settled;
    };
    EXPECT_EQ(timers_->dispatch_due(at(1s), no_budget, again), 1U);
    EXPECT_EQ(timers_->deadline_of(id), at(2s));
    EXPECT_EQ(run(2s), (names{1}));
}

TEST_F(TimerService, DispatchInAForkedChildTouchesNothing) {
    using after_run = timer_service::after_run;
    timers_->arm(at(1s), note(1));
    timers_->arm(at(1s), note(2));
    timer_service::running_timer left;
    const auto fork = [&](timer_service::running_timer timer, const due_timer&) {
        left = timer;
        return after_run::forked;
    };
    EXPECT_EQ(timers_->dispatch_due(at(1s), no_budget, fork), 1U);
    left.payload()();  // it has not been ended
    EXPECT_EQ(ran(), (names{1}));
    timers_->end(left);
    EXPECT_EQ(run(1s), (names{2}));
}

TEST_F(TimerService, ComesAgainWithItsIdAndItsPayload) {
    std::atomic<int> alive{0};
    const timer_id id = timers_->arm(at(10ns), [this, c = counted(alive)] { ran_.push_back(1); });
    for (duration time = 10ns; time < 50ns; time += 10ns) {
        const auto batch = collect(time);
        ASSERT_EQ(batch.size(), 1U);
        EXPECT_EQ(batch[0].id, id);
        const auto timer = timers_->begin(batch[0]);
        ASSERT_TRUE(timer);
        timer.payload()();
        tick armed_as = 0;
        timers_->again(timer, at(time + 10ns), armed_as);
        EXPECT_EQ(armed_as, static_cast<tick>((time + 10ns).count()));
        EXPECT_EQ(timers_->deadline_of(id), at(time + 10ns));
        EXPECT_EQ(collect(time + 9ns).size(), 0U);
        EXPECT_FALSE(fire(batch[0])) << "an old entry";
    }
    EXPECT_EQ(ran(), (names{1, 1, 1, 1}));
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
    EXPECT_EQ(alive, 0);
    const timer_stats stats = timers_->stats();
    EXPECT_EQ(stats.scheduled, 1U);
    EXPECT_EQ(stats.fired, 4U);
    EXPECT_EQ(stats.cancelled, 1U);
    EXPECT_EQ(stats.pending, 0U);
}

TEST_F(TimerService, ComesAgainAtOnceIfThatIsPast) {
    timers_->arm(at(100ns), note(1));
    const auto batch = collect(100ns);
    tick armed_as = 0;
    timers_->again(timers_->begin(batch.at(0)), at(50ns), armed_as);
    EXPECT_EQ(armed_as, 100U) << "a past deadline counts as now";
    const auto next = collect(100ns);
    ASSERT_EQ(next.size(), 1U);
    EXPECT_EQ(next[0].deadline, armed_as);
    timers_->again(timers_->begin(next[0]), never, armed_as);
    EXPECT_EQ(armed_as, never_tick);
    EXPECT_EQ(collect(1h).size(), 0U);
}

TEST_F(TimerService, DoesNotComeAgainIfItWasCancelledWhileItRan) {
    std::atomic<int> alive{0};
    const timer_id id = timers_->arm(at(10ns), [c = counted(alive)] {});
    const auto timer = timers_->begin(collect(10ns).at(0));
    EXPECT_EQ(timers_->cancel(id), cancel_result::running);
    EXPECT_EQ(timers_->cancel(id), cancel_result::running) << "and again";
    EXPECT_EQ(alive, 1) << "a running callback is not destroyed";
    tick armed_as = 0;
    timers_->again(timer, at(20ns), armed_as);
    EXPECT_EQ(alive, 0);
    EXPECT_TRUE(names_nothing(id));
    EXPECT_EQ(collect(1h).size(), 0U);

    // The slot's next user is not over.
    timers_->arm(at(20ns), note(2));
    const auto next = timers_->begin(collect(1h).at(0));
    timers_->again(next, at(2h), armed_as);
    EXPECT_EQ(run(2h), names{2});
}

TEST_F(TimerService, DoesNotComeAgainAfterClose) {
    const timer_id id = timers_->arm(at(10ns), note(1));
    const auto timer = timers_->begin(collect(10ns).at(0));
    timers_->close();
    EXPECT_EQ(timers_->cancel(id), cancel_result::running) << "close() leaves it alone";
    tick armed_as = 0;
    timers_->again(timer, at(20ns), armed_as);
    EXPECT_TRUE(names_nothing(id));
    EXPECT_EQ(timers_->stats().pending, 0U);
    timers_->wait_idle();
}

// ---- waiting for callbacks ----

TEST_F(TimerService, WaitsUntilNoCallbackIsRunning) {
    make({.shards = 2});
    timers_->wait_idle();  // nothing is
    timers_->arm(at(10ns), note(1));
    on_own_thread([&] { timers_->arm(at(10ns), note(2)); });
    std::vector<timer_service::running_timer> running;
    for (auto batch = collect(1us); !batch.empty(); batch = collect(1us)) {
        for (const due_timer& due : batch)
            running.push_back(timers_->begin(due));
    }
    ASSERT_EQ(running.size(), 2U);
    std::atomic<int> ended{0};
    occurrence idle;
    std::thread waiter([&] {
        timers_->wait_idle();
        EXPECT_EQ(ended, 2);
        idle.set();
    });
    for (const auto& timer : running) {
        EXPECT_FALSE(idle.has_happened());
        ++ended;
        timers_->end(timer);
    }
    EXPECT_TRUE(idle.wait());
    waiter.join();
}

TEST_F(TimerService, ARunThatComesAgainIsNotRunning) {
    const timer_id id = timers_->arm(at(10ns), note(1));
    const auto timer = timers_->begin(collect(10ns).at(0));
    occurrence idle;
    std::atomic<pid_t> waiting{0};
    std::thread waiter([&] {
        waiting = ::gettid();
        timers_->wait_idle();
        idle.set();
    });
    EXPECT_TRUE(eventually([&] { return waiting != 0; }));
    EXPECT_TRUE(falls_asleep(waiting));
    tick armed_as = 0;
    timers_->again(timer, at(20ns), armed_as);
    EXPECT_TRUE(idle.wait()) << "nothing runs any more";
    if (!idle.has_happened()) {  // so that the test fails, and does not hang
        timers_->end(timers_->begin(collect(20ns).at(0)));
    }
    waiter.join();
    timers_->cancel(id);
}

TEST_F(TimerService, CancelAndWaitWaitsForTheEnd) {
    for (int round = 0; round < 200; ++round) {
        int written = 0;  // not atomic: the end orders it, and TSan says so
        const timer_id id = timers_->arm(at(duration(round)), [&] { written = 1; });
        const timer_id other = timers_->arm(at(duration(round)), [] {});
        const auto batch = collect(duration(round));
        ASSERT_EQ(batch.size(), 2U);
        const auto second = timers_->begin(batch[1]);
        const auto first = timers_->begin(batch[0]);
        occurrence about_to_wait;
        std::thread waiter([&] {
            about_to_wait.set();
            EXPECT_EQ(timers_->cancel_and_wait(id), cancel_result::gone);
            EXPECT_EQ(written, 1);
        });
        ASSERT_TRUE(about_to_wait.wait());
        timers_->end(second);  // wakes it too soon
        first.payload()();
        timers_->end(first);
        waiter.join();
        EXPECT_TRUE(names_nothing(other));
    }
}

TEST_F(TimerService, CancelAndWaitInsideItsOwnCallbackSaysRunning) {
    timer_id id;
    timer_id other;
    id = timers_->arm(at(10ns), [&] {
        EXPECT_EQ(timers_->cancel_and_wait(id), cancel_result::running);
        EXPECT_EQ(timers_->cancel(id), cancel_result::running);
        EXPECT_EQ(timers_->cancel_and_wait(other), cancel_result::cancelled) << "due, in the batch";
        ran_.push_back(1);
    });
    other = timers_->arm(at(10ns), note(2));
    EXPECT_EQ(run(10ns), names{1});
}

TEST_F(TimerService, CancelAndWaitInsideANestedCallbackSaysRunning) {
    timer_id outer;
    outer = timers_->arm(at(10ns), [&] { timers_->run_due(at(20ns)); });
    timers_->arm(at(20ns), [&] {
        EXPECT_EQ(timers_->cancel_and_wait(outer), cancel_result::running);
        ran_.push_back(1);
    });
    EXPECT_EQ(timers_->run_due(at(10ns)), 1U);
    EXPECT_EQ(ran(), names{1});
}

TEST_F(TimerService, CancelAndWaitInsideItsPayloadsDestructorSaysRunning) {
    int asked = 0;
    timer_id id;
    const auto ask = [&] {
        EXPECT_EQ(timers_->cancel_and_wait(id), cancel_result::running);
        timers_->wait_idle();  // but for itself, nothing runs
        ++asked;
    };
    id = timers_->arm(at(10ns), [end = at_end(ask)] {});
    EXPECT_EQ(timers_->run_due(at(10ns)), 1U);
    EXPECT_EQ(asked, 1);

    id = timers_->arm(at(20ns), [end = at_end(ask)] {});
    timers_->arm(at(20ns), note(1));
    const auto batch = collect(20ns);
    ASSERT_EQ(batch.size(), 2U);
    const auto next = timers_->end_and_begin(timers_->begin(batch[0]), batch[1]);
    EXPECT_EQ(asked, 2);
    timers_->end(next);

    id = timers_->arm(at(30ns), [end = at_end(ask)] {});
    const auto timer = timers_->begin(collect(30ns).at(0));
    timers_->cancel(id);
    tick armed_as = 0;
    timers_->again(timer, at(40ns), armed_as);
    EXPECT_EQ(asked, 3);
    EXPECT_TRUE(names_nothing(id));
}

// ---- destructors ----

TEST_F(TimerService, DestructorsMayArmAndCancel) {
    make({.shards = 2});
    timer_id other = timers_->arm(at(1h), note(1));
    timer_id armed;
    const auto act = [&] {
        EXPECT_EQ(timers_->cancel(other), cancel_result::cancelled);
        armed = timers_->arm(at(2h), note(2));
        other = timers_->arm(at(1h), note(1));
        EXPECT_TRUE(armed);
        EXPECT_EQ(timers_->rearm(armed, at(3h)), reschedule_result::pending);
        EXPECT_EQ(timers_->stats().pending, 2U);
        timers_->trim();
    };
    const auto expect_armed = [&] { EXPECT_EQ(timers_->cancel(armed), cancel_result::cancelled); };

    timers_->cancel(timers_->arm(at(10ns), [end = at_end(act)] {}));
    expect_armed();
    timers_->cancel_and_wait(timers_->arm(at(10ns), [end = at_end(act)] {}));
    expect_armed();
    timers_->arm(at(20ns), [end = at_end(act)] {});
    EXPECT_EQ(timers_->run_due(at(20ns)), 1U);
    expect_armed();
    timers_->arm(at(30ns), [end = at_end(act)] {});
    timers_->drop(collect(30ns).at(0));
    expect_armed();
    timers_->arm(at(40ns), [end = at_end(act)] { throw 1; });
    EXPECT_THROW(timers_->run_due(at(40ns)), int);
    expect_armed();
}

TEST_F(TimerService, DestructorsMayArmAndCancelWhileItCloses) {
    make({.shards = 3});
    int destroyed = 0;
    std::vector<timer_id> ids;
    for (int part = 0; part < 3; ++part) {
        on_own_thread([&] {
            for (int i = 0; i < 100; ++i) {
                ids.push_back(timers_->arm(at(1h), [end = at_end([&, i] {
                                                        ++destroyed;
                                                        timers_->arm(at(1h), [] {});
                                                        if (i % 2 == 0) timers_->cancel(ids[150]);
                                                        if (i % 7 == 0) timers_->close();
                                                    })] {}));
            }
        });
    }
    timers_->close();
    EXPECT_EQ(destroyed, 300);
    EXPECT_EQ(timers_->stats().pending, 0U);
    EXPECT_FALSE(timers_->arm(at(1h), note(1)));
    timers_.reset();
    EXPECT_EQ(destroyed, 300);
}

TEST_F(TimerService, ItsDestructorDropsWhatIsPending) {
    std::atomic<int> alive{0};
    timers_->arm(at(1h), [c = counted(alive)] { FAIL(); });
    timers_->arm(never, [c = counted(alive)] { FAIL(); });
    timers_->arm(at(1ns), [c = counted(alive)] { FAIL(); });
    EXPECT_EQ(collect(1ns).size(), 1U);
    timers_.reset();
    EXPECT_EQ(alive, 0);
}

// ---- statistics ----

TEST_F(TimerService, CountsWhatItDoes) {
    make({.shards = 2, .max_timers = 6});
    std::vector<timer_id> ids;
    for (int i = 1; i <= 3; ++i)
        ids.push_back(timers_->arm(at(duration(i)), note(i)));
    on_own_thread([&] {
        for (int i = 4; i <= 6; ++i)
            ids.push_back(timers_->arm(at(duration(i)), note(i)));
    });
    timers_->arm(at(1ns), note(7));
    timers_->cancel(ids[0]);
    timers_->cancel(ids[0]);
    timers_->rearm(ids[1], at(3ns));
    timers_->rearm(ids[0], at(3ns));
    EXPECT_EQ(run(4ns), (names{3, 2, 4}));
    timers_->drop(collect(5ns).at(0));

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
                       {"scheduled", stat_kind::counter, 6},
                       {"cancelled", stat_kind::counter, 1},
                       {"rescheduled", stat_kind::counter, 1},
                       {"fired", stat_kind::counter, 3},
                       {"dropped", stat_kind::counter, 1},
                       {"rejected", stat_kind::counter, 1},
                       {"pending", stat_kind::gauge, 1},
                   }));
    static_assert(stats_snapshot<timer_stats>);
}

}  // namespace
}  // namespace verge
