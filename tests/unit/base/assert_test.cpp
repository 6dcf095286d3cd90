// The debug half of VERGE_ASSERT, whatever the build is.  Includes nothing of ours but that header:
// an inline function compiled both ways would break the one-definition rule.
#undef NDEBUG
#include <verge/base/detail/assert.hpp>

#include <csignal>
#include <string>

#include <gtest/gtest.h>

namespace {

constexpr int line_of_the_assertion = __LINE__ + 2;
constexpr int half(int even) {
    VERGE_ASSERT(even % 2 == 0, "only even numbers have a half");
    return even / 2;
}
static_assert(half(4) == 2, "usable in a constexpr function");

TEST(Assert, LetsATrueConditionPass) {
    int evaluated = 0;
    VERGE_ASSERT(++evaluated == 1, "evaluated once");
    EXPECT_EQ(evaluated, 1);
    EXPECT_EQ(half(evaluated + 5), 3);
}

TEST(AssertDeathTest, PrintsFileLineMessageAndConditionThenAborts) {
    EXPECT_EXIT(half(3), testing::KilledBySignal(SIGABRT),
                "assert_test.cpp:" + std::to_string(line_of_the_assertion) +
                    ": only even numbers have a half \\(even % 2 == 0\\)");
}

TEST(AssertDeathTest, TakesAnyConditionThatConvertsToBool) {
    const void* pointer = nullptr;
    EXPECT_EXIT(VERGE_ASSERT(pointer, "a pointer"), testing::KilledBySignal(SIGABRT),
                "a pointer \\(pointer\\)");
}

TEST(Assert, IsAnExpression) {
    const int value = (VERGE_ASSERT(true, "fine"), 7);
    EXPECT_EQ(value, 7);
}

}  // namespace
