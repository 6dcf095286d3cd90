#include <verge/fiber/detail/park_cell.hpp>

#include <gtest/gtest.h>

namespace verge::fibers::detail {
namespace {

TEST(ParkCell, AClaimBeforeTheSwitchLeavesTheOwnerToItself) {
    park_cell cell;
    const auto epoch = cell.begin(false);
    EXPECT_FALSE(cell.claimed(epoch));
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::won);
    EXPECT_TRUE(cell.claimed(epoch));
    EXPECT_FALSE(cell.commit(epoch));
    EXPECT_EQ(cell.finish(), wake_reason::notified);
}

TEST(ParkCell, AClaimAfterTheSwitchMakesTheOwnerReady) {
    park_cell cell;
    const auto epoch = cell.begin(false);
    EXPECT_TRUE(cell.commit(epoch));
    EXPECT_EQ(cell.claim(epoch, wake_reason::timed_out), claim_result::ready);
    EXPECT_EQ(cell.finish(), wake_reason::timed_out);
}

TEST(ParkCell, OnlyTheFirstClaimWins) {
    park_cell cell;
    const auto epoch = cell.begin(true);
    EXPECT_TRUE(cell.commit(epoch));
    EXPECT_EQ(cell.interrupt(), claim_result::ready);
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::lost);
    EXPECT_EQ(cell.interrupt(), claim_result::lost);
    EXPECT_FALSE(cell.abandon(epoch));
    EXPECT_EQ(cell.finish(), wake_reason::interrupted);
}

TEST(ParkCell, AClaimOnAnOldWaitDoesNothing) {
    park_cell cell;
    const auto first = cell.begin(false);
    EXPECT_EQ(cell.claim(first, wake_reason::notified), claim_result::won);
    cell.finish();
    EXPECT_EQ(cell.claim(first, wake_reason::notified), claim_result::lost);
    const auto second = cell.begin(false);
    EXPECT_NE(first, second);
    EXPECT_EQ(cell.claim(first, wake_reason::timed_out), claim_result::lost);
    EXPECT_FALSE(cell.claimed(second));
    EXPECT_TRUE(cell.abandon(second));
}

TEST(ParkCell, AnInterruptEndsOnlyWaitsThatAllowIt) {
    park_cell cell;
    EXPECT_EQ(cell.interrupt(), claim_result::lost);
    const auto epoch = cell.begin(false);
    EXPECT_EQ(cell.interrupt(), claim_result::lost);
    EXPECT_TRUE(cell.commit(epoch));
    EXPECT_EQ(cell.interrupt(), claim_result::lost);
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::ready);
    EXPECT_EQ(cell.finish(), wake_reason::notified);
}

TEST(ParkCell, AnAbandonedWaitCannotBeClaimed) {
    for (const bool interruptible : {false, true}) {
        park_cell cell;
        const auto epoch = cell.begin(interruptible);
        EXPECT_TRUE(cell.abandon(epoch));
        EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::lost);
        EXPECT_EQ(cell.interrupt(), claim_result::lost);
        EXPECT_EQ(cell.begin(interruptible), epoch + 1);
    }
}

}  // namespace
}  // namespace verge::fibers::detail
