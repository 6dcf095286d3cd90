#include <verge/fibers/detail/remote_queue.hpp>

#include <gtest/gtest.h>

namespace verge::fibers::detail {
namespace {

struct item {
    item* next = nullptr;
};

TEST(RemoteQueue, GivesAllAtOnceInTheOrderOfThePushes) {
    remote_queue<item> queue;
    item items[3];
    EXPECT_TRUE(queue.empty());
    for (item& i : items) {
        queue.push(&i);
        queue.leave();
    }
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(queue.pushed(), 3U);
    task_list<item> taken;
    queue.take_all(taken);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(taken.size(), 3U);
    for (item& i : items)
        EXPECT_EQ(taken.pop(), &i);
    EXPECT_EQ(queue.pushed(), 3U);
}

TEST(RemoteQueue, AppendsToWhatTheTakerHas) {
    remote_queue<item> queue;
    item items[2];
    task_list<item> taken;
    taken.push(&items[0]);
    queue.take_all(taken);
    EXPECT_EQ(taken.size(), 1U);
    queue.push(&items[1]);
    queue.leave();
    queue.take_all(taken);
    EXPECT_EQ(taken.pop(), &items[0]);
    EXPECT_EQ(taken.pop(), &items[1]);
}

TEST(RemoteQueue, IsInUseUntilThePusherHasLeft) {
    remote_queue<item> queue;
    item i;
    EXPECT_FALSE(queue.in_use());
    queue.push(&i);
    task_list<item> taken;
    queue.take_all(taken);
    EXPECT_TRUE(queue.in_use());
    queue.leave();
    EXPECT_FALSE(queue.in_use());
}

}  // namespace
}  // namespace verge::fibers::detail
