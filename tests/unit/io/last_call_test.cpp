// A context may be destroyed when run() has returned, though the call by which it came to that, in
// another thread, has not.

#include "unit/io/io_fixture.hpp"
#include <verge/base/detail/spin_lock.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace verge {
namespace {

using namespace std::chrono_literals;
using loop_guard = executor_work_guard<io_context::executor_type>;

constexpr int rounds = 400;

// `last` is called in a thread that is joined only when the context is no more.  In two of three
// rounds the loop sleeps in its reactor, and in one of those it wakes by itself at about that time.
template <class Last>
void destroy_before_it_returns(int hint, Last last) {
    for (int round = 0; round < rounds; ++round) {
        std::optional<io_context> io(std::in_place, hint);
        std::optional<loop_guard> guard(make_work_guard(*io));
        std::optional<steady_timer> timer;
        if (round % 3 != 0) {
            timer.emplace(*io, round % 3 == 1 ? steady_timer::duration(60us) : 1h);
            timer->async_wait([](std::error_code) {});
        }
        std::thread caller([&] {
            for (int i = round % 64 * 40; i > 0; --i)
                detail::spin_platform::pause();
            last(*io, guard, timer);
        });
        const std::size_t handlers = timer ? 2 : 1;
        std::thread runner([&] { EXPECT_EQ(io->run(), handlers); });
        runner.join();
        timer.reset();
        io.reset();
        caller.join();
    }
}

void post_the_last(io_context& io, std::optional<loop_guard>& guard,
                   std::optional<steady_timer>& timer) {
    post(io, [&timer, own = std::move(*guard)]() mutable {
        if (timer) timer->cancel();
        own.reset();
    });
}

// The timer's wait is ended inside, so that the guard is the last work.
void reset_the_guard(io_context& io, std::optional<loop_guard>& guard,
                     std::optional<steady_timer>& timer) {
    post(io, [&timer] {
        if (timer) timer->cancel();
    });
    guard->reset();
}

}  // namespace

TEST(LastCall, APostMayReturnAfterTheEnd) {
    destroy_before_it_returns(concurrency_hint_safe, &post_the_last);
}

TEST(LastCall, APostMayReturnAfterTheEndWhereOneThreadRuns) {
    destroy_before_it_returns(1, &post_the_last);
}

TEST(LastCall, AGuardsResetMayReturnAfterTheEnd) {
    destroy_before_it_returns(concurrency_hint_safe, &reset_the_guard);
}

TEST(LastCall, AGuardsResetMayReturnAfterTheEndWhereOneThreadRuns) {
    destroy_before_it_returns(1, &reset_the_guard);
}

// Its timer does not expire, so there is always work.
TEST(LastCall, AStopMayReturnAfterTheEnd) {
    for (const int hint : {1, concurrency_hint_safe}) {
        for (int round = 0; round < rounds; ++round) {
            std::optional<io_context> io(std::in_place, hint);
            std::optional<steady_timer> timer(std::in_place, *io, 1h);
            timer->async_wait([](std::error_code) {});
            std::thread caller([&] {
                for (int i = round % 64 * 40; i > 0; --i)
                    detail::spin_platform::pause();
                io->stop();
            });
            std::thread runner([&] { EXPECT_EQ(io->run(), 0U); });
            runner.join();
            timer.reset();
            io.reset();
            caller.join();
        }
    }
}

}  // namespace verge
