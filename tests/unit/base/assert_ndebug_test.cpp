// The release half of VERGE_ASSERT, whatever the build is.  See assert_test.cpp.
#undef NDEBUG
#define NDEBUG
#include <verge/base/detail/assert.hpp>

#include <gtest/gtest.h>

namespace {

constexpr int half(int even) {
    VERGE_ASSERT(even % 2 == 0, "only even numbers have a half");
    return even / 2;
}
static_assert(half(5) == 2, "not even looked at");

TEST(AssertWithNdebug, EvaluatesNothing) {
    int evaluated = 0;
    VERGE_ASSERT(++evaluated == 7, "never looked at");
    EXPECT_EQ(evaluated, 0);
}

TEST(AssertWithNdebug, KeepsItsOperandsUsed) {
    const int only_asserted = half(2);  // no warning of an unused variable
    VERGE_ASSERT(only_asserted == 2, "never looked at");
}

TEST(AssertWithNdebug, StillChecksTypes) {
    // A condition that is no bool, or a message that is no string, is refused in release builds
    // too.
    const auto is_checked = [](auto condition) {
        return requires {
            VERGE_ASSERT(condition.missing, "x");
        };
    };
    EXPECT_FALSE(is_checked(1));
}

}  // namespace
