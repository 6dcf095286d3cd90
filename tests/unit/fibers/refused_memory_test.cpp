// Memory refused at each allocation in turn: what is begun is undone, and what comes next works.

#define VERGE_FAILING_NEW_ELSEWHERE
#include "support/failing_new.hpp"
#include "unit/fibers/fiber_fixture.hpp"
#include <verge/fibers/blocking.hpp>
#include <verge/fibers/execution_queue.hpp>
#include <verge/fibers/parallel_for.hpp>
#include <verge/fibers/wait_fd.hpp>
#include <verge/sync/condition_variable.hpp>
#include <verge/sync/event.hpp>
#include <verge/sync/latch.hpp>
#include <verge/sync/mutex.hpp>
#include <verge/sync/once.hpp>
#include <verge/sync/semaphore.hpp>
#include <verge/sync/shared_mutex.hpp>

#include <memory>
#include <mutex>
#include <new>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#if VERGE_CAN_REFUSE_MEMORY
namespace verge::fibers {
namespace {

// Calls `f` with the first allocation refused, then the second, and so on, until it passes; then
// returns how many were refused.  What is thrown tells of it.
template <class F>
int refuse_each(F&& f) {
    for (int nth = 1;; ++nth) {
        bool struck = false;
        try {
            const failing_new fails(nth);
            f();
            struck = fails.struck();
        } catch (const std::bad_alloc&) {
            struck = true;
        } catch (const std::system_error& error) {
            struck = true;
            EXPECT_EQ(error.code(), std::errc::resource_unavailable_try_again) << error.what();
        }
        if (!struck) return nth - 1;
        EXPECT_LT(nth, 1000);
    }
}

class RefusedMemory : public testing::Test {
protected:
    // In a fiber, which stays on its worker.
    template <class F>
    void in_a_fiber(F&& f) {
        scheduler fibers(workers(1));
        fibers.spawn([&] { f(fibers); }).join();
        EXPECT_TRUE(fibers.stop(now() + patience).empty());
    }
};

TEST_F(RefusedMemory, AtConstruction) {
    EXPECT_GT(
        refuse_each([] {
            scheduler fibers(
                {.name = std::string(100, 'n'), .min_workers = 2, .max_workers = 3, .cpus = {0}});
        }),
        3);
    EXPECT_TRUE(eventually([] { return threads_named("nnnn").empty(); }));
}

TEST_F(RefusedMemory, AtEachKindOfSpawn) {
    std::atomic<int> alive{0};
    in_a_fiber([&](scheduler& fibers) {
        for (int mode = 0; mode < 3; ++mode) {
            refuse_each([&] {
                std::vector<fiber<int>> all;
                for (int i = 0; i < 100; ++i) {
                    auto f = [c = counted(alive), i](const std::stop_token&) { return i; };
                    const spawn_options opts{.name = "a name that is too long for a short string"};
                    all.push_back(mode == 0   ? fibers.spawn(std::move(f), opts)
                                  : mode == 1 ? fibers.spawn(urgent, std::move(f), opts)
                                              : fibers.spawn(batched, std::move(f), opts));
                }
                for (int i = 0; i < 100; ++i)
                    EXPECT_EQ(all[static_cast<std::size_t>(i)].join(), i);
            });
        }
    });
    EXPECT_EQ(alive, 0);
}

TEST_F(RefusedMemory, AtTimedWaits) {
    in_a_fiber([](scheduler& fibers) {
        const word_type word{0};
        mutex held;
        shared_mutex shared;
        semaphore none(0);
        event unset;
        latch closed(1);
        condition_variable nobody;
        once_flag flag;
        fiber<> holder = fibers.spawn(urgent, [&] {
            const std::lock_guard one(held);
            const std::lock_guard two(shared);
            call_once(flag, [] { EXPECT_NE(this_fiber::sleep_for(1h), sleep_result::elapsed); });
        });
        const auto soon = [] { return now() + 1us; };
        refuse_each([&] { EXPECT_EQ(this_fiber::sleep_for(1us), sleep_result::elapsed); });
        refuse_each([&] { EXPECT_EQ(wait(word, 0, soon()), wait_result::timed_out); });
        refuse_each([&] { EXPECT_FALSE(held.try_lock_until(soon())); });
        refuse_each([&] { EXPECT_FALSE(shared.try_lock_until(soon())); });
        refuse_each([&] { EXPECT_FALSE(shared.try_lock_shared_until(soon())); });
        refuse_each([&] { EXPECT_NE(none.acquire_until(soon()), wait_result::notified); });
        refuse_each([&] { EXPECT_NE(unset.wait_until(soon()), wait_result::notified); });
        refuse_each([&] { EXPECT_NE(closed.wait_until(soon()), wait_result::notified); });
        refuse_each([&] { EXPECT_FALSE(call_once_until(flag, soon(), [] {})); });
        refuse_each([&] { EXPECT_FALSE(holder.wait_until(soon())); });
        mutex own;
        refuse_each([&] {
            std::unique_lock hold(own);
            EXPECT_EQ(nobody.wait_until(hold, soon()), wait_result::timed_out);
        });
        EXPECT_TRUE(own.try_lock()) << "whatever happened, it is free";
        own.unlock();
        EXPECT_EQ(verge::detail::sync::waiters_of(word), 0U);
        holder.interrupt();
        holder.join();
        // None of them is in a state that it cannot leave.
        EXPECT_TRUE(held.try_lock());
        held.unlock();
        EXPECT_TRUE(shared.try_lock());
        shared.unlock();
        EXPECT_TRUE(call_once_until(flag, soon(), [] { ADD_FAILURE() << "it was done"; }));
    });
}

TEST_F(RefusedMemory, AtTheWaitForADescriptor) {
    in_a_fiber([](scheduler& fibers) {
        const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        ASSERT_GE(fd, 0);
        refuse_each([&] {
            EXPECT_EQ(this_fiber::wait_fd(fd, fd_event::read, now() + 1ms), fd_result::timed_out);
        });
        // And it still works.
        fiber<fd_outcome> waits =
            fibers.spawn(urgent, [fd] { return this_fiber::wait_fd(fd, fd_event::read); });
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
        EXPECT_EQ(waits.join(), fd_result::ready);
        ::close(fd);
    });
}

TEST_F(RefusedMemory, AtTheHelpers) {
    in_a_fiber([](scheduler& fibers) {
        refuse_each([] { EXPECT_EQ(blocking([] { return 1; }), 1); });
        refuse_each([] {
            std::atomic<int> sum{0};
            parallel_for(0, 100, [&](std::size_t i) { sum += static_cast<int>(i); });
            EXPECT_EQ(sum, 4950);
        });
        std::atomic<int> pushed{0};
        std::atomic<int> consumed{0};
        execution_queue<int> queue(fibers, [&](int) { ++consumed; });
        refuse_each([&] {
            for (int i = 0; i < 10; ++i) {
                queue.push(i);
                ++pushed;
            }
        });
        queue.join();
        EXPECT_EQ(consumed, pushed);
    });
}

TEST_F(RefusedMemory, AtNamesAndLocals) {
    in_a_fiber([&](scheduler& fibers) {
        const fiber_local<std::string> local;
        const std::string name(100, 'n');
        fibers
            .spawn([&] {
                refuse_each([&] { this_fiber::set_name(name); });
                refuse_each([&] { *local = name; });
                EXPECT_EQ(this_fiber::name(), name);
                EXPECT_EQ(*local, name);
                refuse_each([&] { EXPECT_EQ(fibers.living().size(), 2U); });
                refuse_each([&] { EXPECT_EQ(fibers.stats().live, 2U); });
            })
            .join();
    });
}

// stop() that has no memory to ask all of them may be called again.
TEST_F(RefusedMemory, AtStop) {
    scheduler fibers(workers(2));
    std::vector<fiber<>> all;
    for (int i = 0; i < 200; ++i)
        all.push_back(fibers.spawn([] { this_fiber::sleep_for(1h); }, {.name = "sleeper"}));
    refuse_each([&] { static_cast<void>(fibers.stop(now())); });
    EXPECT_TRUE(fibers.stop(now() + patience).empty());
}

}  // namespace
}  // namespace verge::fibers
#endif
