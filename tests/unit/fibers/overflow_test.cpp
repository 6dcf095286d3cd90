#include <verge/fibers/scheduler.hpp>

#include <cstddef>

#include <gtest/gtest.h>

namespace {

using namespace verge::fibers;  // NOLINT(google-build-using-namespace): tests

[[gnu::noinline]] int recurse(int depth) {
    volatile char frame[512];
    frame[0] = static_cast<char>(depth);
    return depth == 0 ? frame[0] : recurse(depth - 1) + frame[0];
}

void overflow(bool named) {
    scheduler s({.max_workers = 1, .name_overflows = named});
    s.spawn([] { static_cast<void>(recurse(1'000'000)); }, {.name = "deep thought"}).join();
}

class OverflowDeathTest : public testing::Test {
protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(OverflowDeathTest, NamesTheFiberIfAsked) {
    EXPECT_EXIT(overflow(true), testing::KilledBySignal(SIGSEGV),
                "stack overflow in fiber [0-9a-f]+ deep thought");
}

TEST_F(OverflowDeathTest, EndsTheProgramInAnyCase) {
    EXPECT_EXIT(overflow(false), testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
