// Callbacks that run elsewhere (options::run_on), and callbacks that throw.

#include "unit/driver/timer_thread_fixture.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace verge {
namespace {

using options = timer_thread::options;

TEST(TimerThreadExecutor, RunsCallbacksElsewhere) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    int runs = 0;  // not atomic: they run here
    const auto note = [&] {
        EXPECT_FALSE(timers.on_timer_thread());
        ++runs;
    };
    timers.schedule_after(0ns, note);
    timers.schedule_after(1ms, note);
    ASSERT_TRUE(executor.gets(2));
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(timers.stats().pending, 2U) << "handed over, not begun";
    EXPECT_EQ(timers.stats().fired, 0U);
    executor.run_all();
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(timers.stats().fired, 2U);
    EXPECT_EQ(timers.stats().pending, 0U);
    EXPECT_EQ(timers.stats().lateness.count(), 2U);
    EXPECT_TRUE(same_sum(timers.stats()));
}

TEST(TimerThreadExecutor, HandsOverInOrder) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    std::vector<int> order;
    const time_point start = now() + 20ms;
    for (int i = 0; i < 200; ++i)
        timers.schedule_at(start + i * 10us, [&, i] { order.push_back(i); });
    ASSERT_TRUE(executor.gets(200));
    executor.run_all();
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(order.size(), 200U);
}

TEST(TimerThreadExecutor, ASlowCallbackDelaysNoOther) {
    gate slow;
    thread_pool pool(2);
    timer_thread timers({.run_on = pool.run_on()});
    timers.schedule_after(0ns, slow.wait_here());
    ASSERT_TRUE(slow.entered());
    for (int i = 0; i < 10; ++i) {
        occurrence fired;
        timers.schedule_after(i * 100us, [&] { fired.set(); });
        EXPECT_TRUE(fired.wait()) << "it waits for the slow one";
    }
    slow.open();
}

TEST(TimerThreadExecutor, WhatIsHandedOverCanBeCancelled) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    std::atomic<int> alive{0};
    const timer_id id = timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); });
    const timer_id waited = timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); });
    const timer_id periodic = timers.schedule_every(1us, [c = counted(alive)] { FAIL(); });
    ASSERT_TRUE(executor.gets(3));
    EXPECT_EQ(timers.remaining(id), 0ns);
    EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
    EXPECT_EQ(timers.cancel_and_wait(waited), cancel_result::cancelled);
    EXPECT_EQ(timers.cancel(periodic), cancel_result::cancelled);
    EXPECT_EQ(alive, 0) << "destroyed at once, though the executor still has its name";
    executor.run_all();
    const timer_thread::statistics stats = timers.stats();
    EXPECT_EQ(stats.cancelled, 3U);
    EXPECT_EQ(stats.fired, 0U);
    EXPECT_EQ(stats.dropped, 0U);
}

TEST(TimerThreadExecutor, WhatIsHandedOverCanBeMoved) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    int runs = 0;
    const timer_id id = timers.schedule_after(0ns, [&] { ++runs; });
    ASSERT_TRUE(executor.gets(1));
    callback old = executor.take();
    EXPECT_EQ(timers.reschedule(id, now() + 1h), reschedule_result::pending);
    old();
    EXPECT_EQ(runs, 0) << "its turn is over";
    EXPECT_EQ(timers.reschedule(id, now()), reschedule_result::pending);
    ASSERT_TRUE(executor.gets(1)) << "it is handed over anew";
    callback anew = executor.take();
    old.reset();
    EXPECT_EQ(timers.stats().dropped, 0U) << "what the old one does means nothing";
    anew();
    EXPECT_EQ(runs, 1);
    anew();
    EXPECT_EQ(runs, 1) << "once";
}

TEST(TimerThreadExecutor, ADroppedClosureCountsAsDropped) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    std::atomic<int> alive{0};
    std::vector<timer_id> ids;
    for (int i = 0; i < 5; ++i)
        ids.push_back(timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); }));
    ids.push_back(timers.schedule_every(1us, [c = counted(alive)] { FAIL(); }));
    ASSERT_TRUE(executor.gets(6));
    executor.clear();
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(timers.stats().dropped, 6U);
    EXPECT_EQ(timers.stats().pending, 0U);
    for (const timer_id id : ids)
        EXPECT_EQ(timers.cancel(id), cancel_result::gone);
    EXPECT_TRUE(same_sum(timers.stats()));
}

TEST(TimerThreadExecutor, APeriodicTimerIsHandedOverForEachRun) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    int runs = 0;
    const timer_id id = timers.schedule_every(
        10us, [&] { ++runs; }, missed_ticks::burst);
    for (int i = 1; i <= 5; ++i) {
        ASSERT_TRUE(executor.gets(1));
        EXPECT_EQ(executor.size(), 1U) << "a run begins only after the one before has ended";
        callback work = executor.take();
        work();
        EXPECT_EQ(runs, i);
    }
    EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
    EXPECT_EQ(timers.stats().fired, 5U);
}

TEST(TimerThreadExecutor, APeriodicTimerIsCancelledWhileItRunsElsewhere) {
    gate busy;
    thread_pool pool(2);
    timer_thread timers({.run_on = pool.run_on()});
    std::atomic<int> runs{0};
    const timer_id id = timers.schedule_every(10us, [&, wait = busy.wait_here()]() mutable {
        ++runs;
        wait();
    });
    ASSERT_TRUE(busy.entered());
    EXPECT_EQ(timers.cancel(id), cancel_result::running);
    busy.open();
    EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
    EXPECT_EQ(runs, 1);
}

TEST(TimerThreadExecutor, ARefusedCallbackIsDroppedAndReported) {
    std::atomic<int> refusals{0};
    std::atomic<int> runs{0};
    std::atomic<bool> refuse{true};
    timer_thread timers({.run_on =
                             [&](callback work) {
                                 if (refuse) throw std::runtime_error("full");
                                 work();
                             },
                         .on_exception =
                             [&](std::exception_ptr error) {
                                 try {
                                     std::rethrow_exception(error);
                                 } catch (const std::runtime_error& e) {
                                     if (std::string(e.what()) == "full") ++refusals;
                                 }
                             }});
    std::atomic<int> alive{0};
    timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); });
    timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); });
    EXPECT_TRUE(eventually([&] { return refusals == 2 && alive == 0; }));
    EXPECT_EQ(timers.stats().dropped, 2U);
    refuse = false;
    timers.schedule_after(0ns, [&] { ++runs; });
    EXPECT_TRUE(eventually([&] { return runs == 1; })) << "the thread lives on";
}

TEST(TimerThreadExecutor, MayRunAtOnce) {
    timer_thread timers({.run_on = [](callback work) { work(); }});
    std::atomic<int> runs{0};
    std::atomic<std::uint64_t> id{0};
    id = timers
             .schedule_every(100us,
                             [&] {
                                 EXPECT_TRUE(timers.on_timer_thread());
                                 EXPECT_TRUE(eventually([&] { return id != 0; }));
                                 if (++runs == 5) {
                                     EXPECT_EQ(timers.cancel_and_wait(timer_id(id)),
                                               cancel_result::running);
                                 }
                             })
             .value();
    EXPECT_TRUE(eventually([&] { return runs == 5; }));
    EXPECT_EQ(timers.cancel_and_wait(timer_id(id)), cancel_result::gone);
    EXPECT_EQ(runs, 5);
}

// A loop inside a callback: the callbacks of two timers are on one stack.
TEST(TimerThreadExecutor, CallbacksMayNest) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    timer_id outer;
    int depth = 0;
    outer = timers.schedule_after(0ns, [&] {
        ++depth;
        timers.schedule_after(0ns, [&] {
            ++depth;
            EXPECT_EQ(timers.cancel_and_wait(outer), cancel_result::running) << "further out";
            timers.stop();  // waits for neither
        });
        EXPECT_TRUE(executor.gets(1));
        executor.run_all();
    });
    ASSERT_TRUE(executor.gets(1));
    executor.run_all();
    EXPECT_EQ(depth, 2);
    EXPECT_EQ(timers.cancel_and_wait(outer), cancel_result::gone);
}

TEST(TimerThreadExecutor, ClosuresMayOutliveTheTimerThread) {
    manual_executor executor;
    std::atomic<int> alive{0};
    {
        timer_thread timers({.run_on = executor.run_on()});
        for (int i = 0; i < 3; ++i)
            timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); });
        ASSERT_TRUE(executor.gets(3));
        EXPECT_EQ(alive, 3);
    }
    EXPECT_EQ(alive, 0) << "dropped by the destructor";
    callback one = executor.take();
    one();
    one.reset();
    executor.run_all();
    executor.clear();
}

// The executor holds closures, a closure holds the timer thread's core, and that the executor.
TEST(TimerThreadExecutor, AnExecutorThatIsSharedIsFreed) {
    const auto shared = std::make_shared<manual_executor>();
    const std::weak_ptr<manual_executor> watch = shared;
    {
        timer_thread timers(
            {.run_on = [shared, run = shared->run_on()](callback work) { run(std::move(work)); }});
        timers.schedule_after(0ns, [] { FAIL(); });
        ASSERT_TRUE(shared->gets(1));
    }
    EXPECT_EQ(shared.use_count(), 1) << "the timer thread needs it no more";
}

TEST(TimerThreadExecutor, StopDropsWhatIsHandedOver) {
    manual_executor executor;
    timer_thread timers({.run_on = executor.run_on()});
    std::atomic<int> alive{0};
    timers.schedule_after(0ns, [c = counted(alive)] { FAIL(); });
    timers.schedule_every(1us, [c = counted(alive)] { FAIL(); });
    timers.schedule_after(1h, [c = counted(alive)] { FAIL(); });
    ASSERT_TRUE(executor.gets(2));
    timers.stop();
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(timers.stats().dropped, 3U);
    executor.run_all();
    EXPECT_TRUE(same_sum(timers.stats()));
}

TEST(TimerThreadExecutor, StopWaitsForWhatRunsElsewhere) {
    gate busy;
    thread_pool pool(2);
    timer_thread timers({.run_on = pool.run_on()});
    std::atomic<bool> ended{false};
    timers.schedule_after(0ns, [&, wait = busy.wait_here()]() mutable {
        wait();
        ended = true;
    });
    ASSERT_TRUE(busy.entered());
    std::atomic<pid_t> stopping{0};
    std::thread stopper([&] {
        stopping = ::gettid();
        timers.stop();
        EXPECT_TRUE(ended);
    });
    ASSERT_TRUE(eventually([&] { return stopping != 0; }));
    EXPECT_TRUE(falls_asleep(stopping));
    busy.open();
    stopper.join();
}

// ---- exceptions ----

TEST(TimerThreadExceptions, GoToTheHandlerAndDelayNoOther) {
    thread_pool pool(1);
    for (const bool elsewhere : {false, true}) {
        std::atomic<int> caught{0};
        std::atomic<int> runs{0};
        std::atomic<bool> on_timer_thread{false};
        timer_thread* owner = nullptr;
        timer_thread timers({.run_on = elsewhere ? pool.run_on() : nullptr,
                             .on_exception = [&](std::exception_ptr error) {
                                 on_timer_thread = owner->on_timer_thread();
                                 try {
                                     std::rethrow_exception(error);
                                 } catch (int value) {
                                     caught += value;
                                 }
                             }});
        owner = &timers;
        std::atomic<int> alive{0};
        const time_point start = now() + 5ms;
        std::atomic<int> early{0};
        for (int i = 0; i < 20; ++i) {
            const time_point deadline = start + i * 10us;
            timers.schedule_at(deadline, [&, i, deadline, c = counted(alive)] {
                if (now() < deadline) ++early;
                if (i % 2 == 0) throw 1;
                ++runs;
            });
        }
        EXPECT_TRUE(eventually([&] { return caught == 10 && runs == 10 && alive == 0; }));
        EXPECT_EQ(early, 0);
        EXPECT_EQ(on_timer_thread, !elsewhere) << "on the thread that ran it";
        std::atomic<int> rounds{0};
        const timer_id id = timers.schedule_every(100us, [&] {
            ++rounds;
            throw 100;
        });
        EXPECT_TRUE(eventually([&] { return rounds >= 3; })) << "a periodic one goes on";
        timers.cancel_and_wait(id);
        EXPECT_EQ(caught, 10 + 100 * rounds);
    }
}

TEST(TimerThreadExceptions, AHandlerMayStop) {
    timer_thread* owner = nullptr;
    occurrence stopped;
    timer_thread timers({.on_exception = [&](std::exception_ptr) {
        owner->stop();
        stopped.set();
    }});
    owner = &timers;
    timers.schedule_after(0ns, [] { throw 1; });
    EXPECT_TRUE(stopped.wait());
    EXPECT_FALSE(timers.schedule_after(0ns, [] {}));
}

TEST(TimerThreadExceptionsDeathTest, WithoutAHandlerTheyTerminate) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(
        {
            timer_thread timers;
            timers.schedule_after(0ns, [] { throw std::runtime_error("nobody catches it"); });
            occurrence forever;
            static_cast<void>(forever.wait());
        },
        "nobody catches it");
    EXPECT_DEATH(
        {
            timer_thread timers({.run_on = [](callback) { throw std::runtime_error("refused"); }});
            timers.schedule_after(0ns, [] {});
            occurrence forever;
            static_cast<void>(forever.wait());
        },
        "refused");
}

}  // namespace
}  // namespace verge
