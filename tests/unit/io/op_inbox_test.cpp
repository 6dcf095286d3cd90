#include <verge/io/detail/op_inbox.hpp>

#include <string>

#include <gtest/gtest.h>

namespace verge::detail::io {
namespace {

struct letter : operation {
    explicit letter(char c) : operation(&run), name(c) {}
    static void run(void*, operation*) {}
    char name;
};

struct OpInbox : testing::Test {
    std::string take() {
        op_queue all;
        announced = inbox.take(all);
        std::string names;
        while (operation* const op = all.pop())
            names += static_cast<letter*>(op)->name;
        return names;
    }
    void push_announced(letter& one, letter& two) {
        op_queue both;
        both.push(&one);
        both.push(&two);
        EXPECT_FALSE(inbox.push_announced(both, late));
        EXPECT_TRUE(both.empty());
    }

    op_inbox inbox;
    latecomers late;
    std::ptrdiff_t announced = 0;
    letter a{'a'}, b{'b'}, c{'c'}, d{'d'};
};

TEST_F(OpInbox, GivesBackInTheOrderOfThePushes) {
    EXPECT_TRUE(inbox.empty());
    EXPECT_FALSE(inbox.push(&a, late));
    push_announced(b, c);
    EXPECT_FALSE(inbox.push(&d, late));
    EXPECT_FALSE(inbox.empty());
    EXPECT_EQ(take(), "abcd");
    EXPECT_TRUE(inbox.empty());
    EXPECT_EQ(take(), "");
}

TEST_F(OpInbox, TakesBehindWhatIsThere) {
    op_queue mine;
    mine.push(&a);
    EXPECT_FALSE(inbox.push(&b, late));
    EXPECT_EQ(inbox.take(mine), 0);
    EXPECT_EQ(mine.pop(), &a);
    EXPECT_EQ(mine.pop(), &b);
    EXPECT_EQ(mine.pop(), nullptr);
}

TEST_F(OpInbox, CountsTheAnnouncedOnes) {
    EXPECT_FALSE(inbox.push(&a, late));
    push_announced(b, c);
    EXPECT_FALSE(inbox.push(&d, late));
    take();
    EXPECT_EQ(announced, 2);
    push_announced(a, b);
    take();
    EXPECT_EQ(announced, 2);
    EXPECT_FALSE(inbox.push(&c, late));
    take();
    EXPECT_EQ(announced, 0);
}

TEST_F(OpInbox, TheFirstWhoPushesDuringASleepWakes) {
    EXPECT_TRUE(inbox.fall_asleep());
    EXPECT_TRUE(inbox.empty());
    EXPECT_TRUE(inbox.push(&a, late));
    late.leave();
    EXPECT_FALSE(inbox.push(&b, late));
    EXPECT_EQ(take(), "ab");
    EXPECT_FALSE(inbox.push(&c, late));
    EXPECT_EQ(take(), "c");
}

TEST_F(OpInbox, OnlyWhoWakesIsLate) {
    EXPECT_FALSE(inbox.push(&a, late));
    late.wait();
    EXPECT_EQ(take(), "a");
    EXPECT_TRUE(inbox.fall_asleep());
    EXPECT_TRUE(inbox.push(&a, late));
    EXPECT_FALSE(inbox.push(&b, late));
    late.leave();
    late.wait();
    EXPECT_EQ(take(), "ab");
}

TEST_F(OpInbox, NobodyFallsAsleepOverOperations) {
    EXPECT_FALSE(inbox.push(&a, late));
    EXPECT_FALSE(inbox.fall_asleep());
    EXPECT_EQ(take(), "a");
    EXPECT_TRUE(inbox.fall_asleep());
    EXPECT_TRUE(inbox.fall_asleep());  // a second one, who sleeps as well
}

TEST_F(OpInbox, WhoTakesIsAwake) {
    EXPECT_TRUE(inbox.fall_asleep());
    EXPECT_EQ(take(), "");
    EXPECT_FALSE(inbox.push(&a, late));
    EXPECT_EQ(take(), "a");
}

}  // namespace
}  // namespace verge::detail::io
