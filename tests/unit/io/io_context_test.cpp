#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include "unit/io/io_fixture.hpp"
#include <verge/base/detail/kernel.hpp>
#include <verge/driver/timer_thread.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace verge {
namespace {

class IoContext : public testing::TestWithParam<int> {
protected:
    io_context io{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Hints, IoContext,
                         testing::Values(concurrency_hint_safe, 1, concurrency_hint_unsafe));

TEST_P(IoContext, RunReturnsTheNumberOfHandlers) {
    for (int i = 0; i < 3; ++i)
        post(io, [] {});
    EXPECT_EQ(io.run_one(), 1U);
    EXPECT_EQ(io.run(), 2U);
    io.restart();
    post(io, [] {});
    post(io, [] {});
    EXPECT_EQ(io.poll_one(), 1U);
    EXPECT_EQ(io.poll(), 1U);
    io.restart();
    post(io, [] {});
    post(io, [] {});
    post(io, [] {});
    EXPECT_EQ(io.run_one_for(1h), 1U);
    EXPECT_EQ(io.run_one_until(now() + 1h), 1U);
    EXPECT_EQ(io.run_for(1h), 1U);
}

TEST_P(IoContext, RunReturnsWhenThereIsNoWork) {
    EXPECT_FALSE(io.stopped());
    EXPECT_EQ(io.run(), 0U);
    EXPECT_TRUE(io.stopped());
    post(io, [] {});
    EXPECT_EQ(io.run(), 0U);  // still stopped
    io.restart();
    EXPECT_EQ(io.run(), 1U);
    EXPECT_TRUE(io.stopped());
}

TEST_P(IoContext, RunOneOfTheLastHandlerStopsIt) {
    post(io, [] {});
    EXPECT_EQ(io.run_one(), 1U);
    EXPECT_TRUE(io.stopped());
}

TEST_P(IoContext, WhatAHandlerPostsIsRunToo) {
    int depth = 0;
    std::function<void()> again = [&] {
        if (++depth < 1000) post(io, [&] { again(); });
    };
    post(io, again);
    EXPECT_EQ(io.run(), 1000U);
    EXPECT_EQ(depth, 1000);
}

TEST_P(IoContext, PostNeverNests) {
    std::string order;
    post(io, [&] {
        post(io, [&] { order += 'b'; });
        order += 'a';
    });
    io.run();
    EXPECT_EQ(order, "ab");
}

TEST_P(IoContext, DispatchNestsInside) {
    std::string order;
    dispatch(io, [&] {
        dispatch(io, [&] { order += 'a'; });
        order += 'b';
    });
    EXPECT_EQ(order, "");  // outside the loop it does not
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(order, "ab");
}

TEST_P(IoContext, DeferRunsLater) {
    std::string order;
    post(io, [&] {
        defer(io, [&] { order += 'b'; });
        order += 'a';
    });
    EXPECT_EQ(io.run(), 2U);
    EXPECT_EQ(order, "ab");
}

TEST_P(IoContext, HandlersOfOneThreadRunInOrder) {
    std::vector<int> order;
    for (int i = 0; i < 500; ++i) {
        post(io, [&, i] {
            order.push_back(i);
            if (i < 100) post(io, [&, i] { order.push_back(500 + i); });
        });
    }
    EXPECT_EQ(io.run(), 600U);
    for (int i = 0; i < 600; ++i)
        EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(IoContext, StopLeavesTheRestForLater) {
    int ran = 0;
    for (int i = 0; i < 10; ++i) {
        post(io, [&] {
            if (++ran == 3) io.stop();
        });
    }
    EXPECT_EQ(io.run(), 3U);
    EXPECT_EQ(io.run(), 0U);
    io.restart();
    EXPECT_EQ(io.run(), 7U);
}

TEST_P(IoContext, AnExceptionLeavesRun) {
    std::string order;
    post(io, [&] {
        order += 'a';
        post(io, [&] { order += 'd'; });
    });
    post(io, [&] {
        order += 'b';
        throw std::runtime_error("out");
    });
    post(io, [&] { order += 'c'; });
    EXPECT_THROW(io.run(), std::runtime_error);
    EXPECT_EQ(order, "ab");
    EXPECT_FALSE(io.stopped());
    EXPECT_EQ(io.run(), 2U);
    EXPECT_EQ(order, "abcd");
}

TEST_P(IoContext, RunForEndsInTime) {
    auto guard = make_work_guard(io);
    const time_point before = now();
    EXPECT_EQ(io.run_for(2ms), 0U);
    EXPECT_GE(now(), before + 2ms);
    EXPECT_FALSE(io.stopped());
    EXPECT_EQ(io.run_one_for(0ms), 0U);
    EXPECT_EQ(io.run_until(std::chrono::system_clock::now() + 1ms), 0U);
}

TEST_P(IoContext, RunForEndsAlsoIfThereIsAlwaysWork) {
    const time_point limit = now() + patience;
    bool gave_up = false;
    std::function<void()> again = [&] {
        gave_up = now() > limit;
        if (!gave_up) post(io, [&] { again(); });
    };
    post(io, again);
    while (io.run_for(1ms) == 0) {  // it was over before the first of them
    }
    EXPECT_FALSE(gave_up);
    EXPECT_FALSE(io.stopped());
}

TEST_P(IoContext, PollDoesNotWait) {
    auto guard = make_work_guard(io);
    EXPECT_EQ(io.poll(), 0U);
    EXPECT_EQ(io.poll_one(), 0U);
    EXPECT_FALSE(io.stopped());
    guard.reset();
    EXPECT_TRUE(io.stopped());
}

TEST_P(IoContext, PollInsideAHandlerRunsOthers) {
    std::string order;
    post(io, [&] {
        order += 'a';
        post(io, [&] { order += 'c'; });
        EXPECT_EQ(io.poll(), 2U);
        order += 'd';
    });
    post(io, [&] { order += 'b'; });
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(order, "abcd");
}

TEST_P(IoContext, DestructionDestroysHandlers) {
    std::atomic<int> alive = 0;
    bool ran = false;
    {
        io_context own(GetParam());
        post(own, [&, c = counted(alive)] { ran = true; });
        post(own, [&, c = counted(alive), end = at_end([&] {
                                              // A destructor posts: that is destroyed as well.
                                              post(own, [&, d = counted(alive)] { ran = true; });
                                          })] { ran = true; });
        EXPECT_EQ(alive, 2);
    }
    EXPECT_EQ(alive, 0);
    EXPECT_FALSE(ran);
}

TEST_P(IoContext, HandlersMayBeMoveOnly) {
    int seen = 0;
    post(io, [&, p = std::make_unique<int>(5)] { seen = *p; });
    dispatch(io, [&, p = std::make_unique<int>(5)] { seen += *p; });
    io.run();
    EXPECT_EQ(seen, 10);
}

TEST_P(IoContext, ALargeHandlerIsFineToo) {
    struct large {
        char bytes[5000];
        int* ran;
        void operator()() const { *ran += bytes[0]; }
    };
    int ran = 0;
    post(io, large{{1}, &ran});
    io.run();
    EXPECT_EQ(ran, 1);
}

TEST_P(IoContext, RunningInThisThreadIsKnown) {
    EXPECT_FALSE(io.get_executor().running_in_this_thread());
    io_context other;
    post(io, [&] {
        EXPECT_TRUE(io.get_executor().running_in_this_thread());
        EXPECT_FALSE(other.get_executor().running_in_this_thread());
        post(other, [&] { EXPECT_TRUE(io.get_executor().running_in_this_thread()); });
        other.run();
    });
    io.run();
    EXPECT_FALSE(io.get_executor().running_in_this_thread());
}

TEST_P(IoContext, AnAssociatedAllocatorIsUsedAndBalanced) {
    allocation_count count;
    const counting_allocator<int> allocator(count);
    post(io, bind_allocator(allocator, [&] {
             EXPECT_EQ(count.live, 0);  // its memory is free before the call
         }));
    EXPECT_EQ(count.live, 1);
    io.run();
    EXPECT_EQ(count.total, 1);
    io.restart();
    {
        io_context own(GetParam());
        post(own, bind_allocator(allocator, [] {}));
    }
    EXPECT_EQ(count.live, 0);
}

#if VERGE_CAN_REFUSE_MEMORY
TEST_P(IoContext, ASteadyStateAllocatesNothing) {
    int left = 1000;
    std::function<void()> again = [&] {
        if (--left > 0) post(io, [&] { again(); });
        if (left == 500) return;
    };
    post(io, [&] {
        post(io, [&] { again(); });  // both sizes are there now
    });
    io.run_one();
    const failing_new next(1);  // any allocation from here throws
    io.run();
    EXPECT_EQ(left, 0);
    EXPECT_FALSE(next.struck());
}
#endif

TEST_P(IoContext, ContextsMayBeMadeWithAnAllocator) {
    allocation_count count;
    {
        io_context own(std::allocator_arg, counting_allocator<char>(count), GetParam());
        EXPECT_GT(count.live, 0);
        post(own, [] {});
        EXPECT_EQ(own.run(), 1U);
    }
    EXPECT_EQ(count.live, 0);
}

// As options::run_on of a timer thread: a slow handler of the loop delays no other timer, and what
// the loop has not begun can still be cancelled.
// A clock that jumps when it has been looked at twice.
struct jumping_clock {
    using duration = std::chrono::seconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<jumping_clock>;
    static time_point now() noexcept { return time_point(++looks < 3 ? 0s : 1h); }
    static inline int looks = 0;
};

TEST(IoContextClocks, AClockOfItsOwnIsLookedAtAgain) {
    io_context io;
    auto guard = make_work_guard(io);
    jumping_clock::looks = 1;
    EXPECT_EQ(io.run_until(jumping_clock::time_point(1h)), 0U);
    EXPECT_EQ(io.run_one_until(jumping_clock::time_point(1h)), 0U);
    EXPECT_EQ(io.run_until(std::chrono::system_clock::time_point::min()), 0U);
    EXPECT_FALSE(io.stopped());
    guard.reset();
    EXPECT_EQ(io.run_until(std::chrono::system_clock::time_point::max()), 0U);
    EXPECT_EQ(io.run_for(std::chrono::hours::max()), 0U);
    EXPECT_EQ(io.run_for(std::chrono::hours::min()), 0U);
}

TEST(IoContextThreads, RunsTheCallbacksOfATimerThread) {
    io_context io;
    auto guard = make_work_guard(io);
    std::atomic<int> handed_over = 0;
    std::thread::id ran_on;
    timer_thread timers({.run_on = [&](callback run) {
        post(io, std::move(run));
        ++handed_over;
    }});
    timers.schedule_after(0s, [&] {
        ran_on = std::this_thread::get_id();
        guard.reset();
    });
    const timer_id cancelled = timers.schedule_after(0s, [] { FAIL() << "it was cancelled"; });
    ASSERT_TRUE(eventually([&] { return handed_over == 2; }));
    EXPECT_EQ(timers.cancel(cancelled), cancel_result::cancelled);
    io.run();
    EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(IoContextThreads, PostFromOutsideWakesALoopThatSleeps) {
    for (const int hint : {concurrency_hint_safe, 1}) {
        io_context io(hint);
        auto guard = make_work_guard(io);
        std::atomic<int> ran = 0;
        runners loop(io, 1);
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(loop.sleep());
            post(io, [&] { ++ran; });
            ASSERT_TRUE(eventually([&] { return ran == i + 1; }));
        }
        guard.reset();
    }
}

// The loop looks at the reactor between handlers.  Another thread ends the work at that moment: the
// handlers that are left run all the same.
TEST(IoContextThreads, TheEndOfOtherWorkLeavesNoHandlerBehind) {
    struct : detail::kernel {
        int epoll_wait(int epoll, epoll_event* events, int room, int timeout) noexcept override {
            if (timeout == 0 && at_look) std::thread(std::exchange(at_look, nullptr)).join();
            return kernel::epoll_wait(epoll, events, room, timeout);
        }
        std::function<void()> at_look;
    } watched;
    const detail::replaced_kernel scope(watched);
    for (const int hint : {concurrency_hint_safe, 1}) {
        io_context io(hint);
        static_cast<void>(io.loop().use_reactor());
        auto guard = make_work_guard(io);
        watched.at_look = [&] { guard.reset(); };
        for (int i = 0; i < 1000; ++i)
            post(io, [] {});
        EXPECT_EQ(io.run(), 1000U);
        EXPECT_FALSE(guard.owns_work());
    }
}

TEST(IoContextThreads, StopEndsAllThreads) {
    io_context io;
    auto guard = make_work_guard(io);
    static_cast<void>(io.loop().use_reactor());  // one leads, the others park
    runners loop(io, 4);
    ASSERT_TRUE(loop.sleep());
    io.stop();
    loop.join();
    EXPECT_TRUE(io.stopped());
}

TEST(IoContextThreads, EveryPostRunsOnceOverManyThreads) {
    io_context io;
    auto guard = make_work_guard(io);
    constexpr int each = 20'000;
    std::vector<std::atomic<int>> ran(4 * each);
    {
        runners loop(io, 4);
        std::vector<std::thread> posters;
        for (int t = 0; t < 4; ++t) {
            posters.emplace_back([&, t] {
                for (int i = 0; i < each; ++i) {
                    std::atomic<int>& mine = ran[static_cast<std::size_t>(t * each + i)];
                    if (i % 4 == 0) {
                        post(io, [&] { defer(io, [&] { ++mine; }); });
                    } else {
                        post(io, [&] { ++mine; });
                    }
                }
            });
        }
        for (std::thread& p : posters)
            p.join();
        guard.reset();
    }
    int total = 0;
    for (const std::atomic<int>& r : ran)
        total += r == 1 ? 1 : 1000000;
    EXPECT_EQ(total, 4 * each);
}

TEST(IoContextThreads, AHandlerThatWaitsForAnotherIsHelpedByASecondThread) {
    io_context io;
    occurrence done;
    bool helped = false;
    post(io, [&] {
        post(io, [&] { done.set(); });
        helped = done.wait();
    });
    runners loop(io, 2);
    loop.join();
    EXPECT_TRUE(helped);
}

TEST(IoContextThreads, AnExceptionInOneThreadLosesNothing) {
    io_context io;
    std::atomic<int> ran = 0;
    for (int i = 0; i < 1000; ++i) {
        post(io, [&, i] {
            ++ran;
            if (i % 10 == 0) throw i;
        });
    }
    std::atomic<int> caught = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            while (!io.stopped()) {
                try {
                    io.run();
                } catch (int) {
                    ++caught;
                }
            }
        });
    }
    for (std::thread& t : threads)
        t.join();
    EXPECT_EQ(ran, 1000);
    EXPECT_EQ(caught, 100);
}

// ---- services -----------------------------------------------------------------------------------

struct recording_service : execution_context::service {
    recording_service(execution_context& c, std::string* to) : service(c), log(to) {}
    explicit recording_service(execution_context& c) : service(c) {}
    ~recording_service() override {
        if (log != nullptr) *log += name + "~ ";
    }
    void shutdown() override {
        if (log != nullptr) *log += name + "s ";
    }
    void notify_fork(fork_event event) override {
        if (log != nullptr) *log += name + "f" + std::to_string(static_cast<int>(event)) + " ";
    }
    std::string* log = nullptr;
    std::string name = "a";
};
struct second_service : recording_service {
    second_service(execution_context& c, std::string* to) : recording_service(c, to) { name = "b"; }
};

TEST(ExecutionContext, AServiceIsMadeOnce) {
    io_context io;
    EXPECT_FALSE(has_service<recording_service>(io));
    std::atomic<recording_service*> seen[2] = {nullptr, nullptr};
    std::thread other([&] { seen[0] = &use_service<recording_service>(io); });
    seen[1] = &use_service<recording_service>(io);
    other.join();
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_TRUE(has_service<recording_service>(io));
    EXPECT_EQ(&seen[0].load()->context(), &io);
}

TEST(ExecutionContext, ServicesAreShutDownThenDestroyed) {
    std::string log;
    {
        io_context io;
        make_service<recording_service>(io, &log);
        add_service(io, new second_service(io, &log));
        io.notify_fork(fork_event::prepare);
        io.notify_fork(io_context::fork_parent);
    }
    EXPECT_EQ(log, "bf0 af0 af1 bf1 bs as b~ a~ ");
}

TEST(ExecutionContext, AServiceCannotBeAddedTwice) {
    std::string log;  // services write to it when they go
    io_context io;
    io_context other;
    make_service<recording_service>(io, &log);
    EXPECT_THROW(make_service<recording_service>(io, &log), service_already_exists);
    const auto third = std::make_unique<recording_service>(other, nullptr);
    EXPECT_THROW(add_service(io, third.get()), invalid_service_owner);
}

}  // namespace
}  // namespace verge
