#include <verge/fibers/detail/parking_lot.hpp>

#include <thread>

#include <gtest/gtest.h>

namespace verge::fibers::detail {
namespace {

constexpr time_point passed{};

TEST(ParkingLot, WakesNobodyWhereNobodyWaits) {
    parking_lot lot;
    EXPECT_FALSE(lot.notify());
    EXPECT_EQ(lot.waiters(), 0U);
}

TEST(ParkingLot, ANotificationAfterPrepareEndsTheWaitAtOnce) {
    parking_lot lot;
    const auto seen = lot.prepare();
    EXPECT_EQ(lot.waiters(), 1U);
    EXPECT_TRUE(lot.notify());
    EXPECT_TRUE(lot.wait(seen, never));
    lot.leave();
    lot.stop_searching();
    EXPECT_EQ(lot.waiters(), 0U);
}

TEST(ParkingLot, AWaitEndsAtItsDeadline) {
    parking_lot lot;
    const auto seen = lot.prepare();
    EXPECT_FALSE(lot.wait(seen, passed));
    lot.leave();
    lot.stop_searching();
}

TEST(ParkingLot, CallsOneAtATime) {
    parking_lot lot;
    static_cast<void>(lot.prepare());
    static_cast<void>(lot.prepare());
    EXPECT_TRUE(lot.notify());
    EXPECT_FALSE(lot.notify());  // one is called
    lot.leave();
    EXPECT_FALSE(lot.notify());  // it searches
    lot.stop_searching();
    EXPECT_TRUE(lot.notify());  // the other one
}

TEST(ParkingLot, WakesNobodyWhileSomebodySearches) {
    parking_lot lot;
    static_cast<void>(lot.prepare());
    lot.start_searching();
    EXPECT_FALSE(lot.notify());
    lot.stop_searching();
    EXPECT_TRUE(lot.notify());
}

// A worker was called and left for another reason: the call must not stand for the next sleep.
TEST(ParkingLot, ACallThatCameTooLateIsForgotten) {
    parking_lot lot;
    static_cast<void>(lot.prepare());
    static_cast<void>(lot.prepare());
    lot.leave();  // found something; the other one stands for "somebody waits"
    lot.stop_searching();
    EXPECT_TRUE(lot.notify());
    const auto seen = lot.prepare();
    EXPECT_TRUE(lot.notify());
    EXPECT_TRUE(lot.wait(seen, never));
}

TEST(ParkingLot, TheEndWakesAll) {
    parking_lot lot;
    const auto sleep = [&] {
        const auto seen = lot.prepare();
        lot.start_searching();  // nobody is woken by notify() alone
        EXPECT_TRUE(lot.wait(seen, never));
        lot.leave();
    };
    std::thread a(sleep);
    std::thread b(sleep);
    while (lot.waiters() < 2)
        std::this_thread::yield();
    lot.notify_all();
    a.join();
    b.join();
    EXPECT_EQ(lot.waiters(), 0U);
}

}  // namespace
}  // namespace verge::fibers::detail
