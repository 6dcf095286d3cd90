#include "support/in_child.hpp"
#include <verge/base/detail/fork_guard.hpp>

#include <optional>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge::detail {
namespace {

TEST(ForkGuard, KnowsTheProcessThatMadeIt) {
    const fork_guard guard;
    const fork_guard other;
    EXPECT_TRUE(guard.same_process());
    EXPECT_TRUE(other.same_process());
    std::thread([&] { EXPECT_TRUE(guard.same_process()); }).join();
}

TEST(ForkGuard, KnowsAChild) {
    const fork_guard guard;
    EXPECT_EQ(in_child([&] { return guard.same_process() ? 1 : 0; }), 0);
    EXPECT_TRUE(guard.same_process()) << "the parent has not changed";
}

TEST(ForkGuard, KnowsAChildThatMakesOneOfItsOwn) {
    const fork_guard guard;
    EXPECT_EQ(in_child([&] {
                  const fork_guard own;
                  const fork_guard second;
                  if (!own.same_process() || !second.same_process()) return 1;
                  return guard.same_process() ? 2 : 0;
              }),
              0);
    const fork_guard later;
    EXPECT_TRUE(guard.same_process());
    EXPECT_TRUE(later.same_process());
}

TEST(ForkGuard, KnowsAGrandchild) {
    const fork_guard parents;
    EXPECT_EQ(in_child([&] {
                  const fork_guard childs;
                  const int result = in_child([&] {
                      if (parents.same_process() || childs.same_process()) return 1;
                      const fork_guard own;
                      if (!own.same_process()) return 2;
                      return parents.same_process() || childs.same_process() ? 3 : 0;
                  });
                  if (result != 0) return result;
                  return childs.same_process() && !parents.same_process() ? 0 : 4;
              }),
              0);
    EXPECT_TRUE(parents.same_process());
}

// The child between has made none, so it has no mark: its child is to be told from it all the same.
TEST(ForkGuard, KnowsAGrandchildOfAChildThatMadeNone) {
    const fork_guard parents;
    EXPECT_EQ(in_child([&] {
                  return in_child([&] {
                      const fork_guard own;
                      return own.same_process() && !parents.same_process() ? 0 : 1;
                  });
              }),
              0);
}

TEST(ForkGuard, KnowsBrothers) {
    const fork_guard parents;
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(in_child([&] {
                      const fork_guard own;
                      return own.same_process() && !parents.same_process() ? 0 : 1;
                  }),
                  0);
    }
}

TEST(ForkGuard, IsAValue) {
    std::optional<fork_guard> guard;
    guard.emplace();
    const fork_guard copy = *guard;
    guard.reset();
    EXPECT_TRUE(copy.same_process());
    EXPECT_EQ(in_child([&] { return copy.same_process() ? 1 : 0; }), 0);
}

}  // namespace
}  // namespace verge::detail
