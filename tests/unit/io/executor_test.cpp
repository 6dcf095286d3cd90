#include "unit/io/io_fixture.hpp"
#include <verge/io/any_io_executor.hpp>
#include <verge/io/associated.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/thread_pool.hpp>
#include <verge/io/use_future.hpp>

#include <string>
#include <vector>

#include <signal.h>

namespace verge {
namespace {

static_assert(execution::executor<io_context::executor_type>);
static_assert(execution::executor<any_io_executor>);
static_assert(execution::executor<strand<any_io_executor>>);
static_assert(sizeof(io_context::executor_type) == 8);

TEST(Executor, PropertiesAreRequiredAndQueried) {
    io_context io;
    const auto ex = io.get_executor();
    EXPECT_EQ(query(ex, execution::blocking), execution::blocking_t(execution::blocking.possibly));
    const auto never_blocks = require(ex, execution::blocking.never);
    EXPECT_EQ(query(never_blocks, execution::blocking),
              execution::blocking_t(execution::blocking.never));
    EXPECT_NE(ex, never_blocks);
    EXPECT_EQ(ex, require(never_blocks, execution::blocking.possibly));
    const auto rest = require(ex, execution::relationship.continuation, execution::blocking.never);
    EXPECT_EQ(query(rest, execution::relationship),
              execution::relationship_t(execution::relationship.continuation));
    EXPECT_EQ(&query(ex, execution::context), &io);
    EXPECT_EQ(&query(ex, execution::context_as<execution_context&>), &io);
    EXPECT_EQ(query(ex, execution::mapping), execution::mapping_t(execution::mapping.thread));
    EXPECT_EQ(query(ex, execution::outstanding_work),
              execution::outstanding_work_t(execution::outstanding_work.untracked));
}

TEST(Executor, ABlockingNeverExecutorDoesNotNest) {
    io_context io;
    std::string order;
    const auto ex = require(io.get_executor(), execution::blocking.never);
    ex.execute([&] {
        ex.execute([&] { order += 'b'; });
        order += 'a';
    });
    io.run();
    EXPECT_EQ(order, "ab");
}

TEST(Executor, ATrackingExecutorIsWork) {
    io_context io;
    {
        auto tracked = require(io.get_executor(), execution::outstanding_work.tracked);
        EXPECT_EQ(query(tracked, execution::outstanding_work),
                  execution::outstanding_work_t(execution::outstanding_work.tracked));
        auto copy = tracked;
        auto moved = std::move(tracked);
        EXPECT_EQ(io.poll(), 0U);
        EXPECT_FALSE(io.stopped());
        copy = moved;
        EXPECT_EQ(io.poll(), 0U);
        EXPECT_FALSE(io.stopped());
    }
    EXPECT_TRUE(io.stopped());
}

TEST(Executor, AnAllocatorPropertyIsUsed) {
    io_context io;
    allocation_count count;
    const auto ex =
        require(io.get_executor(), execution::allocator(counting_allocator<int>(count)));
    ex.execute([] {});
    EXPECT_EQ(count.live, 1);
    io.run();
    EXPECT_EQ(count.live, 0);
    EXPECT_EQ(count.total, 1);
}

TEST(Executor, TheOlderFormWorksToo) {
    io_context io;
    const auto ex = io.get_executor();
    std::string order;
    ex.on_work_started();
    EXPECT_EQ(io.poll(), 0U);
    EXPECT_FALSE(io.stopped());
    ex.post(
        [&] {
            ex.dispatch([&] { order += 'a'; });
            ex.defer([&] { order += 'c'; }, std::allocator<void>());
            order += 'b';
        },
        std::allocator<void>());
    EXPECT_EQ(io.poll(), 2U);
    ex.on_work_finished();
    EXPECT_TRUE(io.stopped());
    EXPECT_EQ(order, "abc");
    EXPECT_EQ(&ex.context(), &io);
}

TEST(WorkGuard, KeepsRunFromReturning) {
    io_context io;
    auto guard = make_work_guard(io);
    EXPECT_TRUE(guard.owns_work());
    auto second = guard;
    const auto third = std::move(guard);
    EXPECT_FALSE(guard.owns_work());  // NOLINT: what a moved-from guard says is the question
    runners loop(io, 1);
    ASSERT_TRUE(loop.sleep());
    second.reset();
    EXPECT_FALSE(second.owns_work());
    EXPECT_FALSE(io.stopped());
    const_cast<executor_work_guard<io_context::executor_type>&>(third).reset();
    loop.join();
    EXPECT_TRUE(io.stopped());
}

TEST(AnyIoExecutor, AnyExecutorForwardsProperties) {
    io_context io;
    any_io_executor ex = io.get_executor();
    EXPECT_EQ(&ex.context(), &io);
    EXPECT_NE(ex.target<io_context::executor_type>(), nullptr);
    EXPECT_EQ(ex.target<strand<any_io_executor>>(), nullptr);
    EXPECT_EQ(query(require(ex, execution::blocking.never), execution::blocking),
              execution::blocking_t(execution::blocking.never));
    EXPECT_EQ(query(prefer(ex, execution::relationship.continuation), execution::relationship),
              execution::relationship_t(execution::relationship.continuation));
    {
        const any_io_executor tracked = prefer(ex, execution::outstanding_work.tracked);
        const any_io_executor copy = tracked;
        EXPECT_EQ(io.poll(), 0U);
        EXPECT_FALSE(io.stopped());
    }
    EXPECT_TRUE(io.stopped());
}

TEST(AnyIoExecutor, ComparesWhatItHolds) {
    io_context a;
    io_context b;
    const any_io_executor first = a.get_executor();
    const any_io_executor same = first;
    const any_io_executor other = b.get_executor();
    EXPECT_EQ(first, same);
    EXPECT_NE(first, other);
    EXPECT_NE(first, any_io_executor(make_strand(a)));
    EXPECT_EQ(any_io_executor(), any_io_executor());
    EXPECT_EQ(any_io_executor(), nullptr);
}

TEST(AnyIoExecutor, HoldsLargeExecutorsOnTheHeap) {
    io_context io;
    const strand<any_io_executor> large(io.get_executor());
    static_assert(sizeof(large) > 32);
    any_io_executor ex = large;
    const any_io_executor copy = ex;
    ex = any_io_executor(io.get_executor());
    int ran = 0;
    post(copy, [&] { ++ran; });
    post(ex, [&] { ++ran; });
    io.run();
    EXPECT_EQ(ran, 2);
}

TEST(AnyIoExecutor, AnEmptyExecutorSaysSo) {
    const any_io_executor none;
    EXPECT_FALSE(none);
    EXPECT_THROW(none.execute([] {}), bad_executor);
    EXPECT_THROW(static_cast<void>(none.context()), bad_executor);
}

TEST(Post, AHandlerIsCalledOnItsOwnExecutor) {
    io_context io;
    io_context home;
    bool called = false;
    post(io, bind_executor(home, [&] {
             EXPECT_TRUE(home.get_executor().running_in_this_thread());
             called = true;
         }));
    EXPECT_EQ(io.run(), 1U);
    EXPECT_FALSE(called);
    EXPECT_FALSE(home.stopped());
    EXPECT_EQ(home.run(), 1U);
    EXPECT_TRUE(called);
}

TEST(Post, AHandlersExecutorHasWorkMeanwhile) {
    io_context io;
    io_context home;
    post(io, bind_executor(home, [] {}));
    EXPECT_EQ(home.poll(), 0U);
    EXPECT_FALSE(home.stopped());
    io.run();
    EXPECT_EQ(home.poll(), 1U);
}

TEST(Post, WithoutAnExecutorItGoesToTheHandlers) {
    io_context io;
    bool called = false;
    post(bind_executor(io, [&] { called = true; }));
    dispatch(bind_executor(io.get_executor(), [&] {}));
    defer(bind_executor(io.get_executor(), [&] {}));
    EXPECT_FALSE(called);
    EXPECT_EQ(io.run(), 3U);
    EXPECT_TRUE(called);
}

TEST(Post, AResultIsPassedOn) {
    io_context io;
    io_context home;
    int result = 0;
    bool done = false;
    post([] { return 42; }, io, bind_executor(home, [&](int value) { result = value; }));
    post([] {}, io, [&] { done = true; });
    EXPECT_EQ(io.run(), 2U);
    EXPECT_TRUE(done);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(home.run(), 1U);
    EXPECT_EQ(result, 42);
}

TEST(Post, DispatchAndDeferPassAResultOnToo) {
    io_context io;
    io_context home;
    int result = 0;
    int later = 0;
    bool done = false;
    post(io, [&] {
        dispatch([] { return 42; }, io, bind_executor(home, [&](int value) { result = value; }));
        EXPECT_EQ(home.poll(), 1U);  // the function was called at once
        EXPECT_EQ(result, 42);
        defer([] { return 7; }, io.get_executor(), [&](int value) { later = value; });
        dispatch([] {}, io.get_executor(), [&] { done = true; });
        EXPECT_TRUE(done);
        EXPECT_EQ(later, 0);
    });
    std::future<int> outside = dispatch([] { return 1; }, io, use_future);
    defer([] {}, io, [&] { done = false; });
    EXPECT_EQ(io.run(), 4U);
    EXPECT_EQ(later, 7);
    EXPECT_FALSE(done);
    EXPECT_EQ(outside.get(), 1);
}

TEST(Associated, BindersNestAndPassOn) {
    io_context io;
    allocation_count count;
    const auto handler =
        bind_executor(io, bind_allocator(counting_allocator<int>(count), [](int) {}));
    EXPECT_EQ(get_associated_executor(handler), io.get_executor());
    EXPECT_EQ(get_associated_allocator(handler).count, &count);
    const auto plain = [] {};
    EXPECT_EQ(get_associated_executor(plain, io), io.get_executor());
    EXPECT_EQ(get_associated_executor(std::ref(handler)), io.get_executor());
}

TEST(ThreadPool, JoinWaitsForAllWork) {
    thread_pool pool(2);
    std::atomic<int> ran = 0;
    for (int i = 0; i < 1000; ++i) {
        post(pool, [&] {
            EXPECT_TRUE(pool.get_executor().running_in_this_thread());
            post(pool, [&] { ++ran; });
            ++ran;
        });
    }
    pool.join();
    EXPECT_EQ(ran, 2000);
    pool.join();  // again: harmless
}

TEST(ThreadPool, StopDropsWhatHasNotBegun) {
    std::atomic<int> alive = 0;
    {
        thread_pool pool(1);
        occurrence begun;
        occurrence go_on;
        post(pool, [&] {
            begun.set();
            EXPECT_TRUE(go_on.wait());
        });
        ASSERT_TRUE(begun.wait());
        post(pool, [c = counted(alive)] { FAIL() << "it had not begun"; });
        pool.stop();
        go_on.set();
        pool.join();
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
}

TEST(ThreadPool, ItsThreadsBlockAllSignals) {
    thread_pool pool(1);
    sigset_t mask;
    ::sigemptyset(&mask);
    post(pool, [&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &mask); });
    pool.join();
    EXPECT_EQ(::sigismember(&mask, SIGTERM), 1);
    EXPECT_EQ(::sigismember(&mask, SIGUSR1), 1);
}

TEST(ThreadPool, AThreadMayAttach) {
    thread_pool pool(0);
    bool ran = false;
    post(pool, [&] {
        ran = true;
        pool.stop();
    });
    pool.attach();
    EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace verge
