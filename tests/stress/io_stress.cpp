// A million timers of one loop, armed and cancelled by four threads while others run it.

#include "unit/io/io_fixture.hpp"
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/steady_timer.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace verge {
namespace {

using loop_steady_timer = steady_timer::rebind_executor<io_context::executor_type>::other;

void check_that_every_wait_completes_once(int hint, int running) {
    constexpr int threads = 4;
    constexpr int window = 64;
    constexpr int each = has_sanitizer ? 25'000 : 250'000;
    io_context io(hint);
    auto guard = make_work_guard(io);
    std::atomic<std::uint64_t> begun = 0;
    std::atomic<std::uint64_t> expired = 0;
    std::atomic<std::uint64_t> aborted = 0;
    std::atomic<std::uint64_t> cancelled = 0;
    std::atomic<int> early = 0;
    {
        runners loop(io, running);
        std::vector<std::thread> users;
        for (int t = 0; t < threads; ++t) {
            users.emplace_back([&, t] {
                std::mt19937 random(static_cast<unsigned>(t));
                std::vector<std::unique_ptr<loop_steady_timer>> timers;
                for (int i = 0; i < window; ++i)
                    timers.push_back(std::make_unique<loop_steady_timer>(io));
                for (int i = 0; i < each; ++i) {
                    loop_steady_timer& timer = *timers[random() % window];
                    cancelled += timer.expires_after(std::chrono::microseconds(random() % 300));
                    const time_point expiry = timer.expiry();
                    ++begun;
                    timer.async_wait([&, expiry](std::error_code error) {
                        if (error) {
                            ++aborted;
                        } else {
                            ++expired;
                            if (now() < expiry) ++early;
                        }
                    });
                    if (random() % 64 == 0) {
                        // Also while they expire: destroyed, and moved.
                        auto& place = timers[random() % window];
                        place = std::make_unique<loop_steady_timer>(std::move(*place));
                    }
                }
                for (auto& timer : timers)
                    cancelled += timer->cancel();
            });
        }
        for (std::thread& u : users)
            u.join();
        guard.reset();
    }
    EXPECT_EQ(begun, std::uint64_t{threads} * each);
    EXPECT_EQ(expired + aborted, begun);
    EXPECT_EQ(cancelled, aborted);
    EXPECT_EQ(early, 0);
}

TEST(IoStress, EveryWaitCompletesOnce) {
    check_that_every_wait_completes_once(concurrency_hint_safe, 4);
}

TEST(IoStress, EveryWaitCompletesOnceWhereOneThreadRuns) {
    check_that_every_wait_completes_once(1, 1);
}

// Posts that end a loop's work over and over, from outside, with and without a sleep in between:
// each runs before run() returns, and all of one thread in their order.
TEST(IoStress, PostsBeforeTheEndRunAndInOrder) {
    constexpr int rounds = has_sanitizer ? 1'000 : 10'000;
    constexpr int posters = 2;
    constexpr int each = 3;
    for (int round = 0; round < rounds; ++round) {
        io_context io(1);
        int ran[posters] = {};
        bool in_order = true;
        std::vector<std::thread> users;
        for (int p = 0; p < posters; ++p) {
            users.emplace_back([&, p, guard = make_work_guard(io)]() mutable {
                for (int i = 0; i < each; ++i) {
                    post(io, [&, p, i] { in_order &= ran[p]++ == i; });
                }
                guard.reset();
            });
        }
        io.run();
        for (std::thread& u : users)
            u.join();
        ASSERT_TRUE(in_order);
        for (const int count : ran)
            ASSERT_EQ(count, each);
    }
}

}  // namespace
}  // namespace verge
