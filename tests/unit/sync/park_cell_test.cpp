#include <verge/sync/detail/park_cell.hpp>

#include <cstdint>

#include <gtest/gtest.h>

namespace verge::detail::sync {
namespace {

constexpr std::uint32_t interrupt = 1;
constexpr std::uint32_t stop = 2;

TEST(ParkCell, AClaimBeforeTheSwitchLeavesTheOwnerToItself) {
    park_cell cell;
    const auto epoch = cell.begin();
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::won);
    EXPECT_FALSE(cell.commit(epoch, true));
    EXPECT_EQ(cell.finish(), wake_reason::notified);
}

TEST(ParkCell, AClaimAfterTheSwitchMakesTheOwnerReady) {
    park_cell cell;
    const auto epoch = cell.begin();
    EXPECT_TRUE(cell.commit(epoch, false));
    EXPECT_EQ(cell.claim(epoch, wake_reason::timed_out), claim_result::ready);
    EXPECT_EQ(cell.finish(), wake_reason::timed_out);
}

TEST(ParkCell, OnlyTheFirstClaimWins) {
    park_cell cell;
    const auto epoch = cell.begin();
    EXPECT_TRUE(cell.commit(epoch, true));
    EXPECT_EQ(cell.request(interrupt), claim_result::ready);
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::lost);
    EXPECT_EQ(cell.request(interrupt), claim_result::lost);
    EXPECT_EQ(cell.finish(), wake_reason::interrupted);
}

TEST(ParkCell, AClaimOnAnOldWaitDoesNothing) {
    park_cell cell;
    const auto first = cell.begin();
    EXPECT_EQ(cell.claim(first, wake_reason::notified), claim_result::won);
    EXPECT_EQ(cell.claim(first, wake_reason::timed_out), claim_result::lost);
    const auto second = cell.begin();
    EXPECT_NE(first, second);
    EXPECT_EQ(cell.claim(first, wake_reason::timed_out), claim_result::lost);
    EXPECT_TRUE(cell.commit(second, false));
    EXPECT_EQ(cell.claim(first, wake_reason::timed_out), claim_result::lost);
    EXPECT_EQ(cell.claim(second, wake_reason::notified), claim_result::ready);
    EXPECT_EQ(cell.finish(), wake_reason::notified);
}

TEST(ParkCell, ARequestEndsOnlyWaitsThatAllowIt) {
    park_cell cell;
    const auto epoch = cell.begin();
    EXPECT_EQ(cell.request(interrupt), claim_result::lost);
    EXPECT_TRUE(cell.commit(epoch, false));
    EXPECT_EQ(cell.request(stop), claim_result::lost);
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::ready);
    EXPECT_EQ(cell.finish(), wake_reason::notified);
    EXPECT_EQ(cell.requests(), interrupt | stop);
}

TEST(ParkCell, ARequestBeforeTheSwitchEndsTheWaitAtTheSwitch) {
    park_cell cell;
    const auto epoch = cell.begin();
    EXPECT_EQ(cell.request(interrupt), claim_result::lost);
    EXPECT_FALSE(cell.commit(epoch, true));
    EXPECT_EQ(cell.finish(), wake_reason::interrupted);
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::lost);
}

TEST(ParkCell, RequestsStayUntilTheyAreTakenAway) {
    park_cell cell;
    for (const std::uint32_t what : {interrupt, stop})
        EXPECT_EQ(cell.request(what), claim_result::lost);
    const auto epoch = cell.begin();
    EXPECT_EQ(cell.claim(epoch, wake_reason::notified), claim_result::won);
    EXPECT_EQ(cell.requests(), interrupt | stop);
    cell.take_away(interrupt);
    EXPECT_EQ(cell.requests(), stop);
    EXPECT_EQ(cell.finish(), wake_reason::notified) << "which they do not change";
    EXPECT_FALSE(cell.commit(cell.begin(), true));
}

}  // namespace
}  // namespace verge::detail::sync
