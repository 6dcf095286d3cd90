// The end of a timer thread: stop() and the destructor, from everywhere.

#include "unit/driver/timer_thread_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace verge {
namespace {

using options = timer_thread::options;

TEST(TimerThreadStop, DropsWhatIsPending) {
    timer_thread timers;
    std::atomic<int> alive{0};
    std::vector<timer_id> ids;
    for (int i = 0; i < 1000; ++i)
        ids.push_back(timers.schedule_after(i * 1h, [c = counted(alive)] {}));
    for (int thread = 0; thread < 4; ++thread) {
        on_own_thread([&] {
            timers.schedule_every(1h, [c = counted(alive)] {});
            timers.schedule_at(never, [c = counted(alive), bulk = std::array<char, 300>{}] {
                static_cast<void>(bulk);
            });
        });
    }
    timers.stop();  // and does not wait for hours
    EXPECT_EQ(alive, 0);
    EXPECT_FALSE(timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); }));
    EXPECT_FALSE(timers.schedule_at(now(), [c = counted(alive)] { FAIL(); }));
    EXPECT_FALSE(timers.schedule_every(1ns, [c = counted(alive)] { FAIL(); }));
    EXPECT_FALSE(timers.schedule_between(now(), now(), [c = counted(alive)] { FAIL(); }));
    EXPECT_THROW(timers.schedule_after(0ns, callback()), std::invalid_argument);
    EXPECT_EQ(alive, 0);
    for (const timer_id id : ids) {
        EXPECT_EQ(timers.cancel(id), cancel_result::gone);
        EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
        EXPECT_EQ(timers.reschedule(id, now()), reschedule_result::gone);
        EXPECT_EQ(timers.remaining(id), std::nullopt);
    }
    const timer_thread::statistics stats = timers.stats();
    EXPECT_EQ(stats.scheduled, 1008U);
    EXPECT_EQ(stats.rejected, 4U);
    EXPECT_EQ(stats.pending, 0U);
    EXPECT_TRUE(same_sum(stats));
    timers.trim();
    timers.stop();  // twice
}

// The least of many, so that a busy machine does not count: no stop waits for a timer, or for a
// thread that looks now and then whether it is to end.
TEST(TimerThreadStop, TakesLessThanFifteenMilliseconds) {
    duration least = duration::max();
    for (int round = 0; round < 20; ++round) {
        timer_thread timers;
        const pid_t tid = thread_of(timers);
        for (int hours = 1; hours < 100; ++hours)
            timers.schedule_after(hours * 1h, [] { FAIL(); });
        ASSERT_TRUE(falls_asleep(tid));
        const time_point begin = now();
        timers.stop();
        least = std::min(least, now() - begin);
    }
    EXPECT_LE(least, 15ms);
}

TEST(TimerThreadStop, TheDestructorDropsWhatIsPending) {
    std::atomic<int> alive{0};
    {
        timer_thread timers;
        for (int i = 0; i < 100; ++i)
            timers.schedule_after(i * 1min, [c = counted(alive)] {});
    }
    EXPECT_EQ(alive, 0);
}

TEST(TimerThreadStop, WaitsForACallbackThatIsRunning) {
    gate busy;
    timer_thread timers;
    std::atomic<bool> ended{false};
    timers.schedule_after(0ns, [&, wait = busy.wait_here()]() mutable {
        wait();
        ended = true;
    });
    ASSERT_TRUE(busy.entered());
    std::vector<std::thread> stoppers;
    std::atomic<pid_t> last{0};
    for (int i = 0; i < 2; ++i) {  // from two threads
        stoppers.emplace_back([&] {
            last = ::gettid();
            timers.stop();
            EXPECT_TRUE(ended);
        });
    }
    ASSERT_TRUE(eventually([&] { return last != 0; }));
    EXPECT_TRUE(falls_asleep(last));
    EXPECT_TRUE(eventually([&] { return !timers.schedule_after(1h, [] {}); }));
    busy.open();
    for (std::thread& stopper : stoppers)
        stopper.join();
}

TEST(TimerThreadStop, FromInsideACallback) {
    occurrence stopped;
    gate busy;
    timer_thread timers;
    std::atomic<int> alive{0};
    timers.schedule_at(time_point{}, busy.wait_here());
    ASSERT_TRUE(busy.entered());
    timers.schedule_at(time_point{}, [&, c = counted(alive)] {
        timers.stop();
        timers.stop();
        EXPECT_FALSE(timers.schedule_after(0ns, [] { FAIL(); }));
        EXPECT_TRUE(timers.on_timer_thread());
        stopped.set();
    });
    for (int i = 0; i < 100; ++i)  // of the same batch
        timers.schedule_at(time_point{}, [c = counted(alive)] { FAIL(); });
    timers.schedule_every(1ns, [c = counted(alive)] { FAIL(); });
    busy.open();
    EXPECT_TRUE(stopped.wait());
    timers.stop();  // waits for the rest of it
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(timers.stats().fired, 2U);
    EXPECT_TRUE(same_sum(timers.stats()));
}

TEST(TimerThreadStop, FromInsideAPeriodicCallback) {
    timer_thread timers;
    std::atomic<int> alive{0};
    std::atomic<int> runs{0};
    timers.schedule_every(10us, [&, c = counted(alive)] {
        if (++runs == 3) timers.stop();
    });
    EXPECT_TRUE(eventually([&] { return alive == 0; }));
    timers.stop();
    EXPECT_EQ(runs, 3);
}

TEST(TimerThreadStop, FromTheDestructorOfACallback) {
    thread_pool pool(1);
    for (const bool elsewhere : {false, true}) {
        timer_thread timers({.run_on = elsewhere ? pool.run_on() : nullptr});
        occurrence stopped;
        timers.schedule_after(0ns, [end = at_end([&] {
                                        timers.stop();
                                        stopped.set();
                                    })] {});
        EXPECT_TRUE(stopped.wait()) << "it waits for itself";
        std::atomic<int> destroyed{0};
        timer_thread other;
        for (int i = 0; i < 100; ++i) {
            other.schedule_after(1h, [end = at_end([&] {
                                          EXPECT_FALSE(other.schedule_after(1h, [] {}));
                                          other.stop();
                                          ++destroyed;
                                      })] {});
        }
        other.stop();
        EXPECT_EQ(destroyed, 100);
    }
}

TEST(TimerThreadStop, WhileFourThreadsSchedule) {
    for (int round = 0; round < 20; ++round) {
        timer_thread timers({.shards = 3});
        std::atomic<int> alive{0};
        std::atomic<int> accepted{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                for (int i = 0;; ++i) {
                    const timer_id id =
                        timers.schedule_after(i % 2 == 0 ? 0ns : 1h, [c = counted(alive)] {});
                    if (!id) return;
                    ++accepted;
                    if (i % 3 == t % 3) timers.cancel(id);
                }
            });
        }
        EXPECT_TRUE(eventually([&] { return accepted > 200; }));
        timers.stop();
        for (std::thread& thread : threads)
            thread.join();
        EXPECT_EQ(alive, 0);
        const timer_thread::statistics stats = timers.stats();
        EXPECT_EQ(stats.scheduled, static_cast<std::uint64_t>(accepted));
        EXPECT_EQ(stats.rejected, 4U);
        EXPECT_EQ(stats.pending, 0U);
        EXPECT_TRUE(same_sum(stats));
    }
}

// ---- the destructor, inside a callback ----

TEST(TimerThreadStop, ItsOwnCallbackMayDestroyIt) {
    std::atomic<int> alive{0};
    std::atomic<bool> destroyed{false};
    auto timers = std::make_unique<timer_thread>();
    gate busy;
    timers->schedule_at(time_point{}, busy.wait_here());
    ASSERT_TRUE(busy.entered());
    timers->schedule_at(time_point{}, [&, c = counted(alive)] {
        timers.reset();
        destroyed = true;
    });
    for (int i = 0; i < 10; ++i)
        timers->schedule_at(time_point{}, [c = counted(alive)] { FAIL(); });
    timers->schedule_after(1h, [c = counted(alive)] { FAIL(); });
    busy.open();
    EXPECT_TRUE(eventually([&] { return destroyed && alive == 0; }));
}

TEST(TimerThreadStop, ItsOwnPeriodicCallbackMayDestroyIt) {
    std::atomic<int> alive{0};
    std::atomic<int> runs{0};
    auto timers = std::make_unique<timer_thread>();
    gate busy;
    timers->schedule_at(time_point{}, busy.wait_here());
    timers->schedule_every(1us, [&, c = counted(alive)] {
        if (++runs == 3) timers.reset();
    });
    busy.open();
    EXPECT_TRUE(eventually([&] { return alive == 0; }));
    EXPECT_EQ(runs, 3);
}

TEST(TimerThreadStop, TheDestructorOfItsOwnCallbackMayDestroyIt) {
    thread_pool pool(1);
    for (const bool elsewhere : {false, true}) {
        auto timers =
            std::make_shared<timer_thread>(options{.run_on = elsewhere ? pool.run_on() : nullptr});
        occurrence destroyed;
        gate busy;
        timers->schedule_after(0ns, [end = at_end([&] { destroyed.set(); }), timers,
                                     wait = busy.wait_here()]() mutable { wait(); });
        ASSERT_TRUE(busy.entered());
        timers.reset();  // the callback's is the last
        busy.open();
        EXPECT_TRUE(destroyed.wait()) << "it waits for itself";
    }
}

// The guarantee NoCallbackAfterDtor, where others run at the same time.
TEST(TimerThreadStop, ACallbackThatDestroysItWaitsForTheOthers) {
    thread_pool pool(3);
    for (int round = 0; round < 3; ++round) {
        auto timers = std::make_unique<timer_thread>(options{.run_on = pool.run_on()});
        gate busy;
        std::atomic<bool> other_ended{false};
        occurrence destroyed;
        std::atomic<pid_t> destroying{0};
        timers->schedule_after(0ns, [&, wait = busy.wait_here()]() mutable {
            wait();
            other_ended = true;
        });
        ASSERT_TRUE(busy.entered());
        timers->schedule_after(0ns, [&] {
            destroying = ::gettid();
            timers.reset();
            EXPECT_TRUE(other_ended) << "a callback runs after the destructor has returned";
            destroyed.set();
        });
        ASSERT_TRUE(eventually([&] { return destroying != 0; }));
        EXPECT_TRUE(falls_asleep(destroying));
        busy.open();
        EXPECT_TRUE(destroyed.wait());
    }
}

// Once stop() or the destructor has returned, the executor may be gone.
TEST(TimerThreadStop, HandsNothingOverAfterACallbackHasStoppedIt) {
    for (const bool destroy : {false, true}) {
        std::atomic<bool> over{false};
        std::atomic<int> handed_after{0};
        occurrence done;
        std::unique_ptr<timer_thread> timers;
        timers = std::make_unique<timer_thread>(options{.run_on = [&](callback work) {
            if (over) ++handed_after;
            work();
        }});
        gate busy;
        timers->schedule_at(time_point{}, busy.wait_here());
        ASSERT_TRUE(busy.entered());
        timers->schedule_at(time_point{}, [&] {
            timers->stop();
            if (destroy) timers.reset();
            over = true;
        });
        for (int i = 0; i < 20; ++i)  // of the same batch
            timers->schedule_at(time_point{}, [] { FAIL(); });
        timer_thread::executor watch =
            [&, end = std::make_shared<at_end>([&] { done.set(); })](callback) {};
        busy.open();
        EXPECT_TRUE(eventually([&] { return over.load(); }));
        if (!destroy) timers->stop();
        watch = nullptr;
        EXPECT_TRUE(done.wait());
        EXPECT_EQ(handed_after, 0);
    }
}

// The kernel gives a thread's number again when it is over.
TEST(TimerThreadStop, NoOtherThreadIsTheTimerThread) {
    timer_thread timers;
    const pthread_t handle = timers.native_handle();
    EXPECT_FALSE(timers.on_timer_thread());
    timers.stop();
    int taken = 0;
    for (int i = 0; i < 20; ++i) {
        on_own_thread([&] {
            if (::pthread_equal(::pthread_self(), handle) != 0) ++taken;
            EXPECT_FALSE(timers.on_timer_thread());
        });
    }
    if (taken == 0) GTEST_SKIP() << "no thread got the handle of the timer thread";
}

}  // namespace
}  // namespace verge
