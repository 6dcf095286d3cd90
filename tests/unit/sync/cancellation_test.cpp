// Stops and deadlines that unwind: docs/design/cancellation.md.

#include "unit/fibers/fiber_fixture.hpp"
#include <verge/fibers/blocking.hpp>
#include <verge/fibers/execution_queue.hpp>
#include <verge/fibers/parallel_for.hpp>
#include <verge/fibers/wait_fd.hpp>
#include <verge/sync/cancellation.hpp>
#include <verge/sync/condition_variable.hpp>
#include <verge/sync/event.hpp>
#include <verge/sync/latch.hpp>
#include <verge/sync/mutex.hpp>
#include <verge/sync/semaphore.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge::fibers {
namespace {

using word_type = std::atomic<std::uint32_t>;

/// Sets a flag when the scope is left.
struct at_exit {
    std::atomic<bool>& flag;
    explicit at_exit(std::atomic<bool>& f) noexcept : flag(f) {}
    at_exit(const at_exit&) = delete;
    at_exit& operator=(const at_exit&) = delete;
    ~at_exit() { flag = true; }
};

/// Everything that waits, as a loop that never ends by itself.
struct endless {
    const char* name;
    std::function<void()> turn;
};

class EveryWait : public testing::Test {
protected:
    EveryWait() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~EveryWait() override {
        child_end_.open();
        ::close(fd_);
    }

    std::vector<endless> all() {
        return {
            {"sleep_for", [] { this_fiber::sleep_for(1h); }},
            {"sleep_until never", [] { this_fiber::sleep_until(never); }},
            {"wait", [this] { wait(word_, 0); }},
            {"wait with a limit", [this] { wait(word_, 0, now() + 1h); }},
            {"event", [this] { event_.wait(); }},
            {"auto_reset_event", [this] { auto_event_.wait(); }},
            {"latch", [this] { latch_.wait(); }},
            {"semaphore", [this] { static_cast<void>(semaphore_.acquire()); }},
            {"condition_variable",
             [this] {
                 std::unique_lock lock(mutex_);
                 changed_.wait(lock);
             }},
            {"condition_variable with a predicate",
             [this] {
                 std::unique_lock lock(mutex_);
                 static_cast<void>(changed_.wait(lock, [] { return false; }));
             }},
            {"wait_fd", [this] { static_cast<void>(this_fiber::wait_fd(fd_, fd_event::read)); }},
            {"join", [this] { child().wait(); }},
            {"join with a limit", [this] { static_cast<void>(child().wait_for(1h)); }},
        };
    }

    scheduler fibers_{scheduler::options{.min_workers = 2, .max_workers = 2}};

private:
    // A fiber that ends only with the test.
    fiber<>& child() {
        std::call_once(once_, [this] {
            child_ = fibers_.spawn([this] {
                const no_unwind here;
                static_cast<void>(child_end_.wait());
            });
        });
        return child_;
    }

    word_type word_{0};
    event event_;
    auto_reset_event auto_event_;
    latch latch_{1};
    semaphore semaphore_{0};
    mutex mutex_;
    condition_variable changed_;
    int fd_;
    std::once_flag once_;
    door child_end_;
    fiber<> child_;
};

TEST_F(EveryWait, AStopUnwindsAtTheNextWait) {
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        for (const endless& each : all()) {
            SCOPED_TRACE(each.name);
            std::atomic<bool> left{false};
            tally begun;
            fiber<> f = fibers_.spawn(
                [&] {
                    const at_exit guard(left);
                    begun.add();
                    for (;;)
                        each.turn();
                },
                {.stack = kind});
            ASSERT_TRUE(begun.reaches(1));
            f.request_stop();
            f.join();  // quietly
            EXPECT_TRUE(left);
        }
    }
}

TEST_F(EveryWait, AStopThatCameBeforeTheWaitIsNotLost) {
    for (const endless& each : all()) {
        SCOPED_TRACE(each.name);
        bool went_on = false;
        fiber<> f = fibers_.spawn([&] {
            while (!this_fiber::stop_requested())
                this_fiber::yield();
            each.turn();
            went_on = true;
        });
        f.request_stop();
        f.join();
        EXPECT_FALSE(went_on);
    }
}

TEST_F(EveryWait, ADeadlineEndsALoopOfWaits) {
    for (const endless& each : all()) {
        SCOPED_TRACE(each.name);
        fiber<bool> f = fibers_.spawn([&] {
            std::atomic<bool> left{false};
            const time_point deadline = now() + 2ms;
            const deadline_result result = run_until(deadline, [&] {
                const at_exit guard(left);
                for (;;)
                    each.turn();
            });
            EXPECT_EQ(result, deadline_result::timed_out);
            EXPECT_GE(now(), deadline);
            return left.load();
        });
        EXPECT_TRUE(f.join());
    }
}

TEST_F(EveryWait, WithoutUnwindingAWaitReturnsStopped) {
    fiber<> f = fibers_.spawn([] {
        const no_unwind here;
        EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::stopped);
        EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::stopped) << "it stays";
    });
    f.request_stop();
    f.join();
}

// Plain threads have deadlines as well.
TEST(Cancellation, AThreadHasDeadlinesToo) {
    const word_type word{0};
    const time_point deadline = now() + 2ms;
    const auto got = run_until(deadline, [&]() -> int {
        for (;;)
            wait(word, 0);
    });
    EXPECT_EQ(got, std::nullopt);
    EXPECT_GE(now(), deadline);
    EXPECT_EQ(current_deadline(), never);
}

TEST(Cancellation, AResultThatCameAnywayIsReturned) {
    const auto got = run_until(now() - 1s, [] { return std::make_unique<int>(7); });
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(**got, 7);
    EXPECT_EQ(run_until(now() - 1s, [] {}), deadline_result::completed);
}

TEST(Cancellation, AWaitsOwnLimitReturns) {
    const word_type word{0};
    const auto got = run_within(1h, [&] { return wait(word, 0, now() + 1ms); });
    EXPECT_EQ(got, wait_result::timed_out);
}

TEST(Cancellation, DeadlinesOnlyNarrow) {
    const time_point outer = now() + 1h;
    EXPECT_EQ(remaining(), duration::max());
    static_cast<void>(run_until(outer, [&] {
        EXPECT_EQ(current_deadline(), outer);
        static_cast<void>(run_until(outer + 1h, [&] { EXPECT_EQ(current_deadline(), outer); }));
        static_cast<void>(
            run_until(outer - 1s, [&] { EXPECT_EQ(current_deadline(), outer - 1s); }));
        static_cast<void>(
            run_within(std::chrono::hours::max(), [&] { EXPECT_EQ(current_deadline(), outer); }));
        EXPECT_LE(remaining(), 1h);
        EXPECT_GT(remaining(), 50min);
    }));
    EXPECT_EQ(current_deadline(), never);
    static_cast<void>(run_until(now() - 1s, [] { EXPECT_EQ(remaining(), duration::zero()); }));
}

TEST(Cancellation, TheEarliestScopeIsTold) {
    const word_type word{0};
    bool inner_returned = false;
    const deadline_result outer = run_within(1ms, [&] {
        static_cast<void>(run_within(1h, [&] { wait(word, 0); }));
        inner_returned = true;
    });
    EXPECT_EQ(outer, deadline_result::timed_out);
    EXPECT_FALSE(inner_returned) << "an outer deadline passes through inner scopes";

    deadline_result inner{};
    EXPECT_EQ(run_within(1h, [&] { inner = run_within(1ms, [&] { wait(word, 0); }); }),
              deadline_result::completed);
    EXPECT_EQ(inner, deadline_result::timed_out);
}

TEST(Cancellation, AStopPassesThroughDeadlines) {
    scheduler fibers(workers(1));
    bool returned = false;
    tally begun;
    fiber<> f = fibers.spawn([&] {
        begun.add();
        static_cast<void>(run_within(1h, [] { this_fiber::sleep_for(1h); }));
        returned = true;
    });
    ASSERT_TRUE(begun.reaches(1));
    f.request_stop();
    f.join();
    EXPECT_FALSE(returned);
}

TEST(Cancellation, AShieldLetsCleanupWait) {
    scheduler fibers(workers(1));
    bool cleaned = false;
    deadline_result limited{};
    tally begun;
    fiber<> f = fibers.spawn([&] {
        begun.add();
        while (!this_fiber::stop_requested())
            this_fiber::yield();
        EXPECT_EQ(shield(1h,
                         [&] {
                             EXPECT_EQ(this_fiber::sleep_for(1ms), sleep_result::elapsed);
                             cleaned = true;
                         }),
                  deadline_result::completed);
        limited = shield(1ms, [] { this_fiber::sleep_for(1h); });
        this_fiber::sleep_for(1h);
        ADD_FAILURE() << "the stop is in force again";
    });
    ASSERT_TRUE(begun.reaches(1));
    f.request_stop();
    f.join();
    EXPECT_TRUE(cleaned);
    EXPECT_EQ(limited, deadline_result::timed_out);

    // Nor does a deadline around it count.
    EXPECT_EQ(run_until(now() - 1s,
                        [] {
                            EXPECT_EQ(shield(1h, [] { this_fiber::sleep_for(1ms); }),
                                      deadline_result::completed);
                        }),
              deadline_result::completed);
}

TEST(Cancellation, AStopDuringAShieldedWaitDoesNotEndIt) {
    scheduler fibers(workers(1));
    event go;
    word_type word{0};
    std::vector<std::string> order;
    fiber<> f = fibers.spawn([&] {
        static_cast<void>(shield(1h, [&] {
            go.wait();
            order.emplace_back("event");
            while (word == 0)
                wait(word, 0);
            order.emplace_back("word");
        }));
        this_fiber::sleep_for(1h);
        order.emplace_back("sleep");
    });
    f.request_stop();
    go.set();
    word = 1;
    notify_all(word);
    f.join();
    EXPECT_EQ(order, (std::vector<std::string>{"event", "word"}));
}

/// A destructor that waits, as one of a user's may.
struct waits_in_destructor {
    std::atomic<int>& waited;
    explicit waits_in_destructor(std::atomic<int>& w) noexcept : waited(w) {}
    waits_in_destructor(const waits_in_destructor&) = delete;
    waits_in_destructor& operator=(const waits_in_destructor&) = delete;
    ~waits_in_destructor() {
        if (this_fiber::sleep_for(1ms) == sleep_result::elapsed) ++waited;
        const word_type word{0};
        if (wait(word, 0, now() + 1ms) == wait_result::timed_out) ++waited;
    }
};

TEST(Cancellation, ADestructorIsNotUnwound) {
    scheduler fibers(workers(1));
    std::atomic<int> waited{0};
    fiber<> f = fibers.spawn([&] {
        const waits_in_destructor guard(waited);
        this_fiber::sleep_for(1h);
    });
    f.request_stop();
    f.join();
    EXPECT_EQ(waited, 2);

    EXPECT_EQ(run_within(1ms,
                         [&] {
                             const waits_in_destructor guard(waited);
                             const word_type word{0};
                             wait(word, 0);
                         }),
              deadline_result::timed_out);
    EXPECT_EQ(waited, 4);

    // A capture is destroyed after the function has returned.
    auto captured = std::make_unique<waits_in_destructor>(waited);
    f = fibers.spawn([captured = std::move(captured)] { this_fiber::sleep_for(1h); });
    f.request_stop();
    f.join();
    EXPECT_EQ(waited, 6);
}

TEST(Cancellation, AShieldInADestructorHasItsLimit) {
    scheduler fibers(workers(1));
    struct goodbye {
        deadline_result& result;
        explicit goodbye(deadline_result& r) noexcept : result(r) {}
        goodbye(const goodbye&) = delete;
        goodbye& operator=(const goodbye&) = delete;
        ~goodbye() {
            result = shield(1ms, [] { this_fiber::sleep_for(1h); });
        }
    };
    deadline_result result{};
    fiber<> f = fibers.spawn([&] {
        const goodbye guard(result);
        this_fiber::sleep_for(1h);
    });
    f.request_stop();
    f.join();
    EXPECT_EQ(result, deadline_result::timed_out);
}

TEST(Cancellation, ALockIsNotEnded) {
    scheduler fibers(workers(1));
    mutex m;
    m.lock();
    bool locked = false;
    tally begun;
    fiber<> f = fibers.spawn([&] {
        begun.add();
        EXPECT_EQ(run_until(now() - 1s,
                            [&] {
                                const std::lock_guard hold(m);
                                locked = true;
                            }),
                  deadline_result::completed);
    });
    ASSERT_TRUE(begun.reaches(1));
    f.request_stop();
    m.unlock();
    f.join();
    EXPECT_TRUE(locked);
}

TEST(Cancellation, TheMutexIsHeldWhileAConditionUnwinds) {
    scheduler fibers(workers(1));
    mutex m;
    condition_variable changed;
    bool held = false;
    tally begun;
    fiber<> f = fibers.spawn([&] {
        std::unique_lock lock(m);
        begun.add();
        try {
            changed.wait(lock);
        } catch (const forced_unwind& why) {
            EXPECT_EQ(why.reason(), unwind_reason::stopped);
            held = lock.owns_lock() && !m.try_lock();
            throw;
        }
    });
    ASSERT_TRUE(begun.reaches(1));
    f.request_stop();
    f.join();
    EXPECT_TRUE(held);
    EXPECT_TRUE(m.try_lock()) << "and let go of afterwards";
    m.unlock();
}

TEST(Cancellation, AFiberInheritsTheDeadline) {
    scheduler fibers(workers(2));
    std::atomic<bool> left{false};
    const deadline_result result = run_within(2ms, [&] {
        fiber<> child = fibers.spawn([&] {
            const at_exit guard(left);
            this_fiber::sleep_for(1h);
        });
        child.join();
    });
    EXPECT_EQ(result, deadline_result::timed_out);
    EXPECT_TRUE(left);

    const time_point outer = now() + 1h;
    time_point seen{};
    EXPECT_EQ(run_until(outer, [&] { fibers.spawn([&] { seen = current_deadline(); }).join(); }),
              deadline_result::completed);
    EXPECT_EQ(seen, outer);
    EXPECT_EQ(
        run_within(1h,
                   [&] {
                       fibers.spawn([&] { seen = current_deadline(); }, {.inherit_deadline = false})
                           .join();
                   }),
        deadline_result::completed);
    EXPECT_EQ(seen, never);
}

TEST(Cancellation, ARecordKeepsNothingForTheNextFiber) {
    scheduler fibers(workers(1));
    for (int i = 0; i < 10; ++i) {
        static_cast<void>(run_within(1h, [&] { fibers.spawn([] {}).join(); }));
        fiber<> stopped = fibers.spawn([] { this_fiber::sleep_for(1h); });
        stopped.request_stop();
        stopped.join();
        fibers
            .spawn([] {
                EXPECT_EQ(current_deadline(), never);
                EXPECT_EQ(this_fiber::sleep_for(1us), sleep_result::elapsed);
            })
            .join();
    }
}

TEST(Cancellation, AJoinThatIsStoppedStopsTheChild) {
    scheduler fibers(workers(1));
    std::atomic<bool> left{false};
    tally begun;
    fiber<> parent = fibers.spawn([&] {
        fiber<> child = fibers.spawn([&] {
            const at_exit guard(left);
            begun.add();
            this_fiber::sleep_for(1h);
        });
        child.join();
    });
    ASSERT_TRUE(begun.reaches(1));
    parent.request_stop();
    parent.join();
    EXPECT_TRUE(left);
}

TEST(Cancellation, AJoinKeepsAnInterruptForTheNextWait) {
    scheduler fibers(workers(2));
    door end;
    tally begun;
    fiber<> child = fibers.spawn([&] { EXPECT_TRUE(end.wait()); });
    fiber<> f = fibers.spawn([&] {
        begun.add();
        child.join();
        EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::interrupted);
    });
    ASSERT_TRUE(begun.reaches(1));
    f.interrupt();
    end.open();
    f.join();
}

TEST(Cancellation, AParallelLoopIsStoppedAsAWhole) {
    scheduler fibers(workers(2));
    std::atomic<int> inside{0};
    tally begun;
    fiber<> f = fibers.spawn([&] {
        parallel_for(0, 8, [&](std::size_t) {
            ++inside;
            begun.add();
            struct down {
                std::atomic<int>& n;
                explicit down(std::atomic<int>& of) noexcept : n(of) {}
                down(const down&) = delete;
                down& operator=(const down&) = delete;
                ~down() { --n; }
            } const guard(inside);
            this_fiber::sleep_for(1h);
        });
        ADD_FAILURE() << "the loop unwinds";
    });
    ASSERT_TRUE(begun.reaches(2));
    f.request_stop();
    f.join();
    EXPECT_EQ(inside, 0);
}

TEST(Cancellation, AnExecutionQueueGoesOnWithTheNextValue) {
    scheduler fibers(workers(1));
    std::atomic<int> begun{0};
    {
        execution_queue<int> queue(fibers, [&](int) {
            ++begun;
            this_fiber::sleep_for(1h);
        });
        for (int i = 0; i < 3; ++i)
            queue.push(i);
        EXPECT_TRUE(fibers.stop().empty());
        queue.join();
    }
    EXPECT_EQ(begun, 3);
}

TEST(Cancellation, WhatIsSwallowedIsCounted) {
    scheduler fibers(workers(1));
    const std::uint64_t before = swallowed_unwinds();
    fiber<> f = fibers.spawn([] {
        for (int i = 0; i < 3; ++i) {
            try {
                this_fiber::sleep_for(1h);
            } catch (...) {  // NOLINT(bugprone-empty-catch)
            }
        }
    });
    f.request_stop();
    f.join();
    EXPECT_EQ(swallowed_unwinds() - before, 2U);
}

#ifndef NDEBUG
TEST(CancellationDeathTest, ALoopThatSwallowsAborts) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            scheduler fibers(workers(1));
            fiber<> f = fibers.spawn([] {
                for (;;) {
                    try {
                        this_fiber::sleep_for(1h);
                    } catch (...) {  // NOLINT(bugprone-empty-catch)
                    }
                }
            });
            f.request_stop();
            f.join();
        },
        "catches forced_unwind");
}
#endif

}  // namespace
}  // namespace verge::fibers
