#include <verge/fibers/detail/run_queue.hpp>

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace verge::fibers::detail {
namespace {

struct item {
    item* next = nullptr;
    std::size_t number = 0;
};

using small_queue = run_queue<item, queue_platform, 8>;

class RunQueue : public testing::TestWithParam<bool> {
protected:
    RunQueue() {
        for (std::size_t i = 0; i < items.size(); ++i)
            items[i].number = i;
    }
    void push(std::size_t count) {
        for (; count > 0; --count)
            queue.push(&items[pushed++]);
    }
    // Pops so many, and expects them in the order of the pushes.
    void expect(std::size_t count) {
        for (; count > 0; --count) {
            const item* const i = queue.pop();
            ASSERT_NE(i, nullptr);
            EXPECT_EQ(i->number, popped++);
        }
    }
    std::vector<item> items = std::vector<item>(100);
    std::size_t pushed = 0;
    std::size_t popped = 0;
    small_queue queue{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(SharedOrNot, RunQueue, testing::Bool());

TEST_P(RunQueue, IsEmptyAtFirst) {
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.pop(), nullptr);
}

TEST_P(RunQueue, IsFirstInFirstOut) {
    push(5);
    EXPECT_FALSE(queue.empty());
    expect(5);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.pop(), nullptr);
}

TEST_P(RunQueue, KeepsTheOrderWhenTheRingComesRound) {
    for (int round = 0; round < 10; ++round) {
        push(7);
        expect(7);
    }
}

TEST_P(RunQueue, KeepsTheOrderThroughTheOverflowList) {
    push(20);
    expect(3);
    push(10);  // the ring has room, but what is in the list is older
    expect(27);
    EXPECT_EQ(queue.pop(), nullptr);
    push(2);
    expect(2);
    EXPECT_TRUE(queue.empty());
}

TEST_P(RunQueue, TakesAListAtOnce) {
    push(2);
    task_list<item> more;
    for (; pushed < 30; ++pushed)
        more.push(&items[pushed]);
    queue.push_all(more);
    EXPECT_TRUE(more.empty());
    queue.push_all(more);
    push(1);
    expect(31);
    EXPECT_TRUE(queue.empty());
}

TEST_P(RunQueue, AnnouncedPushesKeepTheOrder) {
    for (; pushed < 12; ++pushed)
        queue.push(&items[pushed], true);
    queue.announce();
    expect(12);
}

TEST(RunQueueThief, TakesHalfOfTheRing) {
    std::vector<item> items(8);
    small_queue victim{true};
    small_queue thief{true};
    for (item& i : items)
        victim.push(&i);
    EXPECT_EQ(victim.steal_for(thief), &items[0]);
    for (const std::size_t i : {1U, 2U, 3U})
        EXPECT_EQ(thief.pop(), &items[i]);
    EXPECT_EQ(thief.pop(), nullptr);
    for (const std::size_t i : {4U, 5U, 6U, 7U})
        EXPECT_EQ(victim.pop(), &items[i]);
    EXPECT_EQ(victim.pop(), nullptr);
}

TEST(RunQueueThief, TakesTheLastOne) {
    item only;
    small_queue victim{true};
    small_queue thief{true};
    victim.push(&only);
    EXPECT_EQ(victim.steal_for(thief), &only);
    EXPECT_TRUE(victim.empty());
    EXPECT_TRUE(thief.empty());
    EXPECT_EQ(victim.steal_for(thief), nullptr);
}

TEST(RunQueueThief, TakesFromTheOverflowListWhenTheRingIsEmpty) {
    std::vector<item> items(20);
    small_queue victim{true};
    small_queue thief{true};
    for (item& i : items)
        victim.push(&i);
    for (std::size_t i = 0; i < 8; ++i)
        ASSERT_EQ(victim.pop(), &items[i]);
    // Half of the twelve there, but no more than half a ring.
    EXPECT_EQ(victim.steal_for(thief), &items[8]);
    for (const std::size_t i : {9U, 10U, 11U})
        EXPECT_EQ(thief.pop(), &items[i]);
    EXPECT_EQ(thief.pop(), nullptr);
    for (std::size_t i = 12; i < 20; ++i)
        EXPECT_EQ(victim.pop(), &items[i]);
    EXPECT_TRUE(victim.empty());
}

TEST(TaskList, AppendsOneListToAnother) {
    std::vector<item> items(4);
    task_list<item> a;
    task_list<item> b;
    a.append(b);
    EXPECT_TRUE(a.empty());
    b.push(&items[0]);
    a.append(b);
    EXPECT_TRUE(b.empty());
    EXPECT_EQ(b.size(), 0U);
    b.push(&items[1]);
    b.push(&items[2]);
    a.append(b);
    a.push(&items[3]);
    EXPECT_EQ(a.size(), 4U);
    for (item& i : items)
        EXPECT_EQ(a.pop(), &i);
    EXPECT_EQ(a.pop(), nullptr);
    EXPECT_TRUE(a.empty());
}

}  // namespace
}  // namespace verge::fibers::detail
