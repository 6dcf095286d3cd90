// issues/next_expiry_walk_test.cpp -- after the first timer of a slot was cancelled, next_expiry()
// walked the whole slot on every call: 62 ms for a million timers.

#include <verge/queue/timing_wheel.hpp>

#include <cstddef>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

// A time cannot be asserted.  But next_bound() never walks, and is exact where the least deadline
// of the slot is known: so it shows what next_expiry() has remembered.
TEST(NextExpiryWalk, RemembersWhatItFound) {
    std::deque<wheel_timer> timers(1000);
    timing_wheel<> wheel(0);
    for (std::size_t i = 0; i < timers.size(); ++i)
        wheel.arm_at(timers[i], 5000 + i * 617 % 1000);
    wheel.cancel(timers[0]);
    EXPECT_EQ(wheel.next_bound(), 4096U) << "the start of the slot";
    EXPECT_EQ(wheel.next_expiry(), 5001U);
    EXPECT_EQ(wheel.next_bound(), 5001U);
    EXPECT_EQ(wheel.check(), nullptr);
}

// What was found is made the first of its list; that must not change the order of equals.
TEST(NextExpiryWalk, KeepsEqualDeadlinesInOrder) {
    std::deque<wheel_timer> timers(9);
    timing_wheel<> wheel(0);
    const std::vector<tick> deadlines = {5000, 5009, 5004, 5007, 5004, 5009, 5004, 5008, 5004};
    for (std::size_t i = 0; i < timers.size(); ++i)
        wheel.arm_at(timers[i], deadlines[i]);
    wheel.cancel(timers[0]);
    EXPECT_EQ(wheel.next_expiry(), 5004U);
    EXPECT_EQ(wheel.check(), nullptr);
    std::vector<std::ptrdiff_t> fired;
    wheel.advance(5100, [&](const wheel_timer& fires) {
        for (std::size_t i = 0; i < timers.size(); ++i) {
            if (&timers[i] == &fires) fired.push_back(static_cast<std::ptrdiff_t>(i));
        }
    });
    EXPECT_EQ(fired, (std::vector<std::ptrdiff_t>{2, 4, 6, 8, 3, 7, 1, 5}));
}

}  // namespace
}  // namespace verge
