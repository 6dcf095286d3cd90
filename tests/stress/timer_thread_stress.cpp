// Real threads, real time: many threads on one timer thread, at random.  A lost wake-up or a
// deadlock is a hang, which a generous limit ends.

#include "unit/driver/timer_thread_fixture.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <latch>
#include <random>
#include <thread>
#include <vector>

namespace verge {
namespace {

using options = timer_thread::options;

constexpr int threads = 4;

// Runs f(thread) on four threads that begin together.
template <class F>
void on_four_threads(F&& f) {
    std::latch begin(threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) {
        all.emplace_back([&f, &begin, t] {
            begin.arrive_and_wait();
            f(t);
        });
    }
    for (std::thread& thread : all)
        thread.join();
}

// ---- exactly one end ----

// What became of one timer, and its id for whoever wants to meddle with it.
struct record {
    std::atomic<std::uint64_t> id{0};
    std::atomic<std::uint8_t> runs{0};
    std::atomic<std::uint8_t> cancels{0};
    std::atomic<std::uint8_t> destroyed{0};
};

// A callback's share of its record: says when it is destroyed.
class witness {
public:
    explicit witness(record& r) : record_(&r) {}
    witness(witness&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
    witness& operator=(witness&&) = delete;
    witness(const witness&) = delete;
    witness& operator=(const witness&) = delete;
    ~witness() {
        if (record_ != nullptr) ++record_->destroyed;
    }
    void operator()() const { ++record_->runs; }

private:
    record* record_;
};

void exactly_one_end(const options& opts) {
    constexpr std::size_t operations = 1'000'000;
    constexpr std::size_t each = operations / threads;
    std::vector<record> records(operations);
    std::array<std::atomic<std::size_t>, 64> recent{};  // whom they meddle with: the same few
    std::array<std::size_t, threads> scheduled{};
    std::atomic<std::uint64_t> moved{0};
    timer_thread timers(opts);
    on_four_threads([&](unsigned t) {
        std::mt19937 random(t);
        std::size_t used = 0;
        std::uint64_t moves = 0;
        for (std::size_t i = 0; i < each; ++i) {
            const std::uint64_t dice = random();
            const duration delay(dice % 7 == 0 ? 0 : random() % 300'000);
            if (dice % 4 == 0) {
                const std::size_t mine = t * each + used++;
                record& r = records[mine];
                const timer_id id = timers.schedule_after(delay, witness(r));
                ASSERT_TRUE(id);
                r.id = id.value();
                recent[random() % recent.size()] = mine;
                continue;
            }
            record& other = records[recent[random() % recent.size()]];
            const timer_id id(other.id.load());
            if (dice % 4 == 1) {
                if (timers.reschedule(id, now() + delay) == reschedule_result::pending) ++moves;
                continue;
            }
            const cancel_result result =
                dice % 64 == 2 ? timers.cancel_and_wait(id) : timers.cancel(id);
            if (result == cancel_result::cancelled) ++other.cancels;
            // Who is told that it is over finds it so.  (Unless another cancelled it this moment.)
            if (result == cancel_result::running) continue;
            const bool over = result == cancel_result::cancelled || other.runs == 1;
            ASSERT_TRUE(!over || other.destroyed == 1);
        }
        scheduled[t] = used;
        moved += moves;
    });
    EXPECT_TRUE(eventually([&] { return timers.stats().fired > 0; })) << "of those that are left";
    timers.stop();
    std::uint64_t total = 0;
    std::uint64_t ran = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t dropped = 0;
    for (std::size_t t = 0; t < threads; ++t) {
        for (std::size_t i = 0; i < scheduled[t]; ++i) {
            const record& r = records[t * each + i];
            ASSERT_EQ(r.destroyed, 1);
            ASSERT_LE(r.runs + r.cancels, 1);
            ++total;
            ran += r.runs;
            cancelled += r.cancels;
            if (r.runs + r.cancels == 0) ++dropped;
        }
    }
    const timer_thread::statistics stats = timers.stats();
    EXPECT_EQ(stats.scheduled, total);
    EXPECT_EQ(stats.fired, ran);
    EXPECT_EQ(stats.cancelled, cancelled);
    EXPECT_EQ(stats.dropped, dropped);
    EXPECT_EQ(stats.rescheduled, moved);
    EXPECT_EQ(stats.pending, 0U);
    EXPECT_GT(ran, 0U);
    EXPECT_GT(cancelled, 0U);
    EXPECT_GT(moved, 0U);
}

TEST(TimerThreadStress, ExactlyOneEnd) {
    exactly_one_end({});
}

TEST(TimerThreadStress, ExactlyOneEndInOneShard) {
    exactly_one_end({.shards = 1});
}

TEST(TimerThreadStress, ExactlyOneEndElsewhere) {
    thread_pool pool(2);
    exactly_one_end({.run_on = pool.run_on()});
}

// ---- no lost wake-up ----

// Each thread waits for its own timer before it schedules the next: the timer thread is nearly
// always about to sleep, or asleep, for an hour.
void earlier_deadlines(const options& opts) {
    constexpr int rounds = detail::has_tsan ? 2000 : 5000;
    timer_thread timers(opts);
    const timer_id far = timers.schedule_after(1h, [] { FAIL(); });
    std::atomic<int> lost{0};
    on_four_threads([&](unsigned t) {
        std::mt19937 random(t);
        for (int round = 0; round < rounds && lost == 0; ++round) {
            const auto fired = std::make_shared<std::atomic<bool>>(false);
            const duration delay(random() % 3 == 0 ? 0 : random() % 50'000);
            if (round % 2 == 0) {
                timers.schedule_after(delay, [fired] { *fired = true; });
            } else {
                const timer_id id = timers.schedule_after(1h, [fired] { *fired = true; });
                EXPECT_EQ(timers.reschedule(id, now() + delay), reschedule_result::pending);
            }
            const time_point limit = now() + patience;
            while (!*fired && lost == 0) {
                std::this_thread::yield();
                if (now() > limit) ++lost;
            }
        }
    });
    EXPECT_EQ(lost, 0) << "a timer sleeps on";
    EXPECT_EQ(timers.cancel(far), cancel_result::cancelled);
}

TEST(TimerThreadStress, AnEarlierDeadlineAlwaysWakes) {
    earlier_deadlines({});
}

TEST(TimerThreadStress, AnEarlierDeadlineAlwaysWakesASpinner) {
    earlier_deadlines({.spin = 20us});
}

TEST(TimerThreadStress, AnEarlierDeadlineAlwaysWakesElsewhere) {
    thread_pool pool(1);
    earlier_deadlines({.run_on = pool.run_on()});
}

// ---- the end, at any time ----

void stop_while_they_schedule(const options& opts, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        std::atomic<int> alive{0};
        std::atomic<std::uint64_t> accepted{0};
        timer_thread timers(opts);
        std::atomic<int> scheduling{threads};
        std::thread stopper([&] {
            while (accepted < static_cast<std::uint64_t>(round % 7) * 50 && scheduling == threads)
                std::this_thread::yield();
            timers.stop();
            EXPECT_FALSE(timers.schedule_after(0ns, [] { FAIL(); }));
        });
        on_four_threads([&](unsigned t) {
            std::mt19937 random(t);
            timer_id last;
            for (;;) {
                const duration delay(random() % 2 == 0 ? duration(random() % 20'000) : 1h);
                const timer_id id =
                    random() % 8 == 0 ? timers.schedule_every(delay + 1us, [c = counted(alive)] {})
                                      : timers.schedule_after(delay, [c = counted(alive)] {});
                if (!id) break;
                ++accepted;
                if (random() % 4 == 0) timers.cancel_and_wait(last);
                if (random() % 4 == 0) timers.reschedule(last, now());
                if (random() % 64 == 0) timers.stop();
                last = id;
            }
            --scheduling;
        });
        stopper.join();
        EXPECT_EQ(alive, 0);
        EXPECT_EQ(timers.stats().scheduled, accepted);
        EXPECT_EQ(timers.stats().pending, 0U);
    }
}

TEST(TimerThreadStress, StopWhileFourThreadsSchedule) {
    stop_while_they_schedule({.shards = 3}, 150);
}

TEST(TimerThreadStress, StopWhileFourThreadsScheduleElsewhere) {
    thread_pool pool(2);
    stop_while_they_schedule({.shards = 3, .run_on = pool.run_on()}, 150);
}

TEST(TimerThreadStress, DestroyedByOneOfManyCallbacks) {
    thread_pool pool(3);
    for (int round = 0; round < 300; ++round) {
        std::atomic<int> inside{0};
        std::atomic<bool> over{false};
        std::atomic<int> late{0};
        occurrence destroyed;
        auto timers = std::make_unique<timer_thread>(options{.run_on = pool.run_on()});
        for (int i = 0; i < 20; ++i) {
            timers->schedule_after(i * 2us, [&] {
                if (over) ++late;
                ++inside;
                std::this_thread::yield();
                --inside;
            });
        }
        gate ready;
        timers->schedule_after((round % 20) * 2us, [&, wait = ready.wait_here()]() mutable {
            wait();
            timers.reset();
            EXPECT_EQ(inside, 0);
            over = true;
            destroyed.set();
        });
        ready.open();
        ASSERT_TRUE(destroyed.wait());
        EXPECT_EQ(late, 0);
    }
}

// ---- cancel_and_wait ----

void cancel_storm(const options& opts) {
    constexpr int rounds = detail::has_tsan ? 3000 : 10'000;
    timer_thread timers(opts);
    // All four cancel the same timer while it comes due, runs, and comes again.
    struct round_data {
        std::atomic<std::uint64_t> id{0};
        std::atomic<int> inside{0};
        std::atomic<int> cancelled{0};
        std::atomic<int> done{0};
    };
    std::vector<round_data> all(rounds);
    on_four_threads([&](unsigned t) {
        for (int i = 0; i < rounds; ++i) {
            round_data& r = all[static_cast<std::size_t>(i)];
            if (static_cast<unsigned>(i) % threads == t) {
                const auto work = [&r] {
                    ++r.inside;
                    --r.inside;
                };
                r.id = (i % 3 == 0 ? timers.schedule_every(1us, work)
                                   : timers.schedule_after(i % 5 * 1us, work))
                           .value();
            }
            while (r.id == 0)
                std::this_thread::yield();
            const cancel_result result = timers.cancel_and_wait(timer_id(r.id));
            ASSERT_NE(result, cancel_result::running);
            ASSERT_EQ(r.inside, 0) << "it is over";
            if (result == cancel_result::cancelled) ++r.cancelled;
            ++r.done;
            while (r.done < threads)
                std::this_thread::yield();
        }
    });
    for (const round_data& r : all)
        ASSERT_LE(r.cancelled, 1);
    EXPECT_TRUE(eventually([&] { return timers.stats().pending == 0; }));
}

TEST(TimerThreadStress, CancelAndWaitStorm) {
    cancel_storm({});
}

TEST(TimerThreadStress, CancelAndWaitStormElsewhere) {
    thread_pool pool(2);
    cancel_storm({.run_on = pool.run_on()});
}

// ---- trim, meanwhile ----

void trim_meanwhile(const options& opts) {
    constexpr int rounds = detail::has_tsan ? 30 : 100;
    timer_thread timers(opts);
    std::atomic<bool> over{false};
    std::atomic<int> alive{0};
    std::thread trimmer([&] {
        while (!over) {
            timers.trim();
            static_cast<void>(timers.stats());
            std::this_thread::yield();
        }
    });
    on_four_threads([&](unsigned t) {
        std::mt19937 random(t);
        std::vector<timer_id> ids;
        for (int round = 0; round < rounds; ++round) {
            // More than a chunk of them, and then none.
            for (int i = 0; i < 1500; ++i) {
                const duration delay(random() % 4 == 0 ? 1h : duration(random() % 500'000));
                ids.push_back(timers.schedule_after(delay, [c = counted(alive)] {}));
                if (i % 16 == 0) timers.reschedule(ids[random() % ids.size()], now() + delay);
            }
            for (const timer_id id : ids) {
                ASSERT_NE(timers.cancel_and_wait(id), cancel_result::running);
                ASSERT_EQ(timers.cancel(id), cancel_result::gone);
            }
            ids.clear();
        }
    });
    EXPECT_EQ(timers.stats().pending, 0U);
    over = true;
    trimmer.join();
    EXPECT_EQ(alive, 0);
    EXPECT_TRUE(same_sum(timers.stats()));
}

TEST(TimerThreadStress, TrimWhileFourThreadsWork) {
    trim_meanwhile({.shards = 2});
}

TEST(TimerThreadStress, TrimWhileFourThreadsWorkElsewhere) {
    thread_pool pool(2);
    trim_meanwhile({.shards = 2, .run_on = pool.run_on()});
}

}  // namespace
}  // namespace verge
