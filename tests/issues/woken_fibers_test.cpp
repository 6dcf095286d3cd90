// A fiber that was woken and had not run yet was shown as asleep: a saturated scheduler looked
// idle.

#include "unit/fibers/fiber_fixture.hpp"
#include <verge/sync/event.hpp>

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

namespace verge::fibers {
namespace {

TEST(WokenFibers, AreShownAsRunnable) {
    scheduler fibers(workers(1));
    event go;
    std::vector<fiber<>> waiting;
    for (int i = 0; i < 10; ++i)
        waiting.push_back(fibers.spawn([&] { go.wait(); }));
    ASSERT_TRUE(eventually([&] { return fibers.stats().waiting == 10; }));
    fibers
        .spawn([&] {
            go.set();  // the one worker is busy here: none of them runs before this fiber ends
            const scheduler::statistics now = fibers.stats();
            EXPECT_EQ(now.runnable, 11U);
            EXPECT_EQ(now.waiting, 0U);
            for (const fiber_info& each : fibers.living())
                EXPECT_EQ(each.state(), fiber_state::runnable);
        })
        .join();
}

}  // namespace
}  // namespace verge::fibers
