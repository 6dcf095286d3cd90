// After a stop request, ordinary loops around a wait spun for ever, and a join never returned.

#include "unit/fibers/fiber_fixture.hpp"
#include <verge/sync/condition_variable.hpp>
#include <verge/sync/mutex.hpp>

#include <atomic>
#include <functional>
#include <mutex>

#include <gtest/gtest.h>

namespace verge::fibers {
namespace {

void expect_that_a_stop_ends(const std::function<void()>& loop) {
    scheduler fibers(workers(1));
    tally begun;
    fiber<> f = fibers.spawn([&] {
        begun.add();
        loop();
        ADD_FAILURE() << "a loop that never ends by itself";
    });
    ASSERT_TRUE(begun.reaches(1));
    f.request_stop();
    f.join();
}

TEST(StoppedLoops, AWaitOnAWord) {
    const word_type open{0};
    expect_that_a_stop_ends([&] {
        while (open.load() == 0)
            wait(open, 0);
    });
}

TEST(StoppedLoops, AConditionVariable) {
    mutex m;
    condition_variable cv;
    expect_that_a_stop_ends([&] {
        std::unique_lock lock(m);
        const bool ready = false;
        while (!ready)
            cv.wait(lock);
    });
    EXPECT_TRUE(m.try_lock());
    m.unlock();
}

TEST(StoppedLoops, AHeartbeat) {
    expect_that_a_stop_ends([] {
        for (;;)
            this_fiber::sleep_for(1s);
    });
}

TEST(StoppedLoops, ALoopWithADeadlineInside) {
    const word_type open{0};
    expect_that_a_stop_ends([&] {
        for (;;) {
            if (wait(open, 0, now() + 1h) == wait_result::notified) return;
        }
    });
}

}  // namespace
}  // namespace verge::fibers
