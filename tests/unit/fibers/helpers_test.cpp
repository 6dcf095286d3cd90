// blocking(), parallel_for() and execution_queue: thin uses of fibers.
#include "support/eventually.hpp"
#include <verge/fibers/blocking.hpp>
#include <verge/fibers/execution_queue.hpp>
#include <verge/fibers/parallel_for.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace verge::fibers;  // NOLINT(google-build-using-namespace): tests

TEST(Blocking, GivesTheResult) {
    scheduler s({.max_workers = 1});
    EXPECT_EQ(s.spawn([] { return blocking([] { return 42; }); }).join(), 42);
    EXPECT_THROW(s.spawn([] { blocking([] { throw std::runtime_error("no"); }); }).join(),
                 std::runtime_error);
    EXPECT_EQ(*s.spawn([] { return blocking([] { return std::make_unique<int>(7); }); }).join(), 7);
}

TEST(Blocking, RunsOnAnotherThreadThanTheWorker) {
    scheduler s({.max_workers = 1});
    s.spawn([] {
         const auto worker = std::this_thread::get_id();
         EXPECT_NE(blocking([] { return std::this_thread::get_id(); }), worker);
     }).join();
    const auto here = std::this_thread::get_id();
    EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), here) << "a plain thread";
    s.spawn(
         [] {
             const auto worker = std::this_thread::get_id();
             EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), worker);
         },
         {.stack = stack_kind::native})
        .join();
}

// The call ends only when another fiber of the same, only worker has run.
TEST(Blocking, TheWorkerGoesOn) {
    scheduler s({.max_workers = 1});
    std::promise<void> other_ran;
    std::future<void> ran = other_ran.get_future();
    auto blocked = s.spawn([&] { return blocking([&] { return ran.wait_for(verge::patience); }); });
    auto other = s.spawn([&] { other_ran.set_value(); });
    EXPECT_EQ(blocked.join(), std::future_status::ready);
    other.join();
}

// Each call waits for all the others.
TEST(Blocking, ManyCallsBlockAtOnce) {
    scheduler s({.max_workers = 1});
    constexpr int calls = 20;
    std::promise<void> all_there;
    std::shared_future<void> go = all_there.get_future().share();
    std::atomic<int> there{0};
    std::atomic<int> alone{0};  // waited in vain
    std::atomic<bool> gone{false};
    const auto all_go = [&] {
        if (!gone.exchange(true)) all_there.set_value();
    };
    std::vector<fiber<>> fibers;
    for (int i = 0; i < calls; ++i) {
        fibers.push_back(s.spawn([&] {
            blocking([&] {
                if (there.fetch_add(1) + 1 == calls) all_go();
                if (go.wait_for(verge::patience) == std::future_status::ready) return;
                ++alone;
                all_go();
            });
        }));
    }
    for (auto& each : fibers)
        each.join();
    EXPECT_EQ(alone.load(), 0);
}

TEST(ParallelFor, VisitsEachIndexOnce) {
    for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
        for (const std::size_t grain : {0U, 1U, 3U, 5000U}) {
            std::vector<std::atomic<int>> visits(count + 5);
            parallel_for(
                5, count + 5, [&](std::size_t i) { visits[i].fetch_add(1); }, grain);
            for (std::size_t i = 0; i < visits.size(); ++i)
                ASSERT_EQ(visits[i].load(), i < 5 ? 0 : 1) << count << ' ' << grain << ' ' << i;
        }
    }
    parallel_for(9, 3, [](std::size_t) { ADD_FAILURE() << "an empty range"; });
}

TEST(ParallelFor, DropsTheOtherExceptions) {
    scheduler fibers({.min_workers = 2, .max_workers = 2});  // no handler: it would terminate
    fibers
        .spawn([] {
            for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
                std::atomic<int> thrown{0};
                EXPECT_THROW(parallel_for(0, 100,
                                          [&](std::size_t i) {
                                              if (i < first) return;
                                              ++thrown;
                                              throw std::out_of_range("each");
                                          }),
                             std::out_of_range);
                EXPECT_GT(thrown, 1);
            }
        })
        .join();
}

TEST(ParallelFor, RethrowsOneException) {
    scheduler s({.max_workers = 2});
    std::atomic<int> visits{0};
    s.spawn([&] {
         EXPECT_THROW(parallel_for(0, 100,
                                   [&](std::size_t i) {
                                       visits.fetch_add(1);
                                       if (i == 99) throw std::out_of_range("99");
                                   }),
                      std::out_of_range);
         EXPECT_EQ(visits.load(), 100) << "all pieces have ended";
     }).join();
}

TEST(ExecutionQueue, KeepsTheOrder) {
    scheduler s({.max_workers = 2});
    constexpr int producers = 4;
    constexpr int each = 5000;
    std::vector<int> last(producers, -1);
    int consumed = 0;
    bool in_order = true;
    {
        execution_queue<std::pair<int, int>> queue(s, [&](std::pair<int, int> item) {
            if (item.second != last[static_cast<std::size_t>(item.first)] + 1) in_order = false;
            last[static_cast<std::size_t>(item.first)] = item.second;
            ++consumed;
        });
        std::vector<std::thread> threads;
        for (int p = 0; p < producers; ++p) {
            threads.emplace_back([&queue, p] {
                for (int i = 0; i < each; ++i)
                    queue.push({p, i});
            });
        }
        for (auto& t : threads)
            t.join();
    }
    EXPECT_EQ(consumed, producers * each);
    EXPECT_TRUE(in_order);
}

// The consumer waits until the destructor has begun, as far as that can be known.
TEST(ExecutionQueue, DestructionConsumesTheRest) {
    scheduler s({.max_workers = 1});
    std::atomic<bool> all_pushed{false};
    int consumed = 0;
    {
        execution_queue<int> queue(s, [&](int) {
            while (!all_pushed)
                verge::this_fiber::yield();
            ++consumed;
        });
        for (int i = 0; i < 100; ++i)
            queue.push(i);
        all_pushed = true;
    }
    EXPECT_EQ(consumed, 100);
}

// The consumer yields in the middle; a second one would be seen.
TEST(ExecutionQueue, OneConsumerAtATime) {
    scheduler s({.max_workers = 2});
    std::atomic<int> inside{0};
    std::atomic<bool> met{false};
    execution_queue<int> queue(s, [&](int) {
        if (inside.fetch_add(1) != 0) met = true;
        verge::this_fiber::yield();
        inside.fetch_sub(1);
    });
    for (int i = 0; i < 2000; ++i)
        queue.push(i);
    queue.join();
    EXPECT_FALSE(met.load());
}

TEST(ExecutionQueue, AThrowingConsumerGoesOnWithTheNext) {
    std::atomic<int> reported{0};
    scheduler s({.max_workers = 1, .on_exception = [&](std::exception_ptr) { ++reported; }});
    std::vector<int> seen;
    execution_queue<int> queue(s, [&](int i) {
        if (i == 1) throw std::runtime_error("one");
        seen.push_back(i);
    });
    for (int i = 0; i < 3; ++i)
        queue.push(i);
    queue.join();
    EXPECT_EQ(seen, (std::vector<int>{0, 2}));
    EXPECT_EQ(reported.load(), 1);
}

TEST(ExecutionQueue, WithoutAFiberThePusherConsumes) {
    scheduler s({.max_workers = 1});
    static_cast<void>(s.stop());
    int seen = 0;
    execution_queue<int> queue(s, [&](int i) { seen = i; });
    queue.push(5);
    EXPECT_EQ(seen, 5);
}

}  // namespace
