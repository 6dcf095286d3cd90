#include "unit/io/io_fixture.hpp"
#include <verge/io/any_io_executor.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/thread_pool.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace verge {
namespace {

TEST(Strand, FunctionsNeverOverlap) {
    thread_pool pool(4);
    const auto one = make_strand(pool);
    int counter = 0;  // no lock: the strand is it
    std::atomic<int> inside = 0;
    std::vector<std::thread> posters;
    for (int t = 0; t < 4; ++t) {
        posters.emplace_back([&] {
            for (int i = 0; i < 5000; ++i) {
                post(one, [&] {
                    EXPECT_EQ(inside++, 0);
                    ++counter;
                    --inside;
                });
            }
        });
    }
    for (std::thread& p : posters)
        p.join();
    pool.join();
    EXPECT_EQ(counter, 20'000);
}

// Waits and posts of two loops, whose handlers belong to one strand: the operations go into its
// queue from all threads.
TEST(Strand, HandlersOfManyOperationsNeverOverlap) {
    constexpr int chains = 8;
    constexpr int rounds = 500;
    io_context io;
    io_context other;
    const auto guard = make_work_guard(io);
    const auto one = make_strand(io);
    const strand<any_io_executor> any(one.get_inner_executor());
    int count = 0;      // under `one`
    int any_count = 0;  // under `any`
    std::atomic<int> left = 2 * chains;
    struct chain {
        steady_timer timer;
        int done = 0;
        std::function<void()> next;
    };
    std::vector<std::unique_ptr<chain>> all;
    const auto start = [&](const auto& in, int& counter, int i) {
        auto& c = *all.emplace_back(
            std::make_unique<chain>(chain{steady_timer(i % 2 == 0 ? io : other), 0, {}}));
        c.next = [&, in, i] {
            c.timer.expires_after(std::chrono::microseconds(i));
            c.timer.async_wait(bind_executor(in, [&, in](std::error_code) {
                EXPECT_TRUE(in.running_in_this_thread());
                ++counter;
                post(other, bind_executor(in, [&] {
                         ++counter;
                         if (++c.done < rounds) {
                             c.next();
                         } else {
                             --left;
                         }
                     }));
            }));
        };
        dispatch(in, [&c] { c.next(); });
    };
    for (int i = 0; i < chains; ++i) {
        start(one, count, i);
        start(any, any_count, i);
    }
    {
        const auto busy = make_work_guard(other);
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; ++t) {
            threads.emplace_back([&] { io.run(); });
            threads.emplace_back([&] { other.run(); });
        }
        EXPECT_TRUE(eventually([&] { return left == 0; }));
        io.stop();
        other.stop();
        for (std::thread& thread : threads)
            thread.join();
    }
    EXPECT_EQ(count, 2 * chains * rounds);
    EXPECT_EQ(any_count, 2 * chains * rounds);
}

TEST(Strand, KeepsTheOrderOfPosts) {
    thread_pool pool(4);
    const auto one = make_strand(pool.get_executor());
    std::vector<int> order;
    for (int i = 0; i < 10'000; ++i)
        post(one, [&, i] { order.push_back(i); });
    pool.join();
    ASSERT_EQ(order.size(), 10'000U);
    for (std::size_t i = 0; i < order.size(); ++i)
        ASSERT_EQ(order[i], static_cast<int>(i));
}

TEST(Strand, DispatchInsideRunsAtOnce) {
    io_context io;
    const auto one = make_strand(io);
    std::string order;
    post(one, [&] {
        EXPECT_TRUE(one.running_in_this_thread());
        post(one, [&] { order += 'c'; });
        defer(one, [&] { order += 'd'; });
        dispatch(one, [&] { order += 'a'; });
        order += 'b';
    });
    EXPECT_FALSE(one.running_in_this_thread());
    io.run();
    EXPECT_EQ(order, "abcd");
}

TEST(Strand, TwoStrandsOfOneContextAreApart) {
    io_context io;
    const auto a = make_strand(io);
    const auto b = make_strand(io);
    EXPECT_NE(a, b);
    EXPECT_EQ(a, strand<io_context::executor_type>(a));
    post(a, [&] { EXPECT_FALSE(b.running_in_this_thread()); });
    io.run();
}

TEST(Strand, AnExceptionDoesNotStopIt) {
    io_context io;
    const auto one = make_strand(io);
    std::string order;
    post(one, [&] { order += 'a'; });
    post(one, [&] {
        order += 'b';
        throw std::runtime_error("out");
    });
    post(one, [&] { order += 'c'; });
    EXPECT_THROW(io.run(), std::runtime_error);
    EXPECT_EQ(order, "ab");
    io.run();
    EXPECT_EQ(order, "abc");
}

TEST(Strand, ABusyStrandLetsOthersRun) {
    io_context io;
    const auto one = make_strand(io);
    int rounds = 0;
    std::function<void()> again = [&] {
        ++rounds;
        post(one, [&] { again(); });
    };
    post(one, again);
    post(io, [&] { io.stop(); });
    io.run();
    EXPECT_LT(rounds, 3);
}

TEST(Strand, ADestroyedContextDestroysWhatWaits) {
    std::atomic<int> alive = 0;
    {
        io_context io;
        const auto one = make_strand(io);
        // It holds the strand, and the strand holds it.
        post(one, [one, c = counted(alive)] {});
        post(one, [one, c = counted(alive)] {});
        EXPECT_EQ(alive, 2);
    }
    EXPECT_EQ(alive, 0);
}

TEST(Strand, WorksAsTheExecutorOfAHandler) {
    io_context io;
    const strand<any_io_executor> one(io.get_executor());
    bool called = false;
    post(io, bind_executor(one, [&] { called = one.running_in_this_thread(); }));
    io.run();
    EXPECT_TRUE(called);
}

TEST(Strand, PropertiesReachTheInnerExecutor) {
    io_context io;
    const auto one = make_strand(io);
    const auto quiet = require(one, execution::blocking.never);
    EXPECT_EQ(&query(one, execution::context), &io);
    std::string order;
    post(one, [&] {
        quiet.execute([&] { order += 'b'; });
        order += 'a';
    });
    io.run();
    EXPECT_EQ(order, "ab");
}

TEST(Strand, TheOlderStrandWraps) {
    io_context io;
    io_context::strand one(io);
    int sum = 0;
    auto wrapped = one.wrap([&](int x) { sum += one.running_in_this_thread() ? x : 1000; });
    wrapped(5);
    one.post([&] { sum += 1; });
    one.dispatch([&] { sum += 1; });
    EXPECT_EQ(sum, 0);
    io.run();
    EXPECT_EQ(sum, 7);
    EXPECT_EQ(&one.context(), &io);
}

TEST(Strand, UsesTheHandlersAllocator) {
    io_context io;
    allocation_count first;
    allocation_count second;
    auto one = make_strand(io);
    int ran = 0;
    {
        const counting_allocator<int> of_first(first);
        post(one, bind_allocator(of_first, [&] {
                 ++ran;
                 // Its turn goes on after it: with memory of the library's own.
                 EXPECT_EQ(first.live, 0);
                 post(one, bind_allocator(counting_allocator<int>(second), [&] { ++ran; }));
             }));
        EXPECT_EQ(first.total, 1);
        EXPECT_EQ(first.live, 1);
    }
    io.run();
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(first.total, 1);
    EXPECT_EQ(second.total, 1);
    EXPECT_EQ(first.live + second.live, 0);
}

}  // namespace
}  // namespace verge
