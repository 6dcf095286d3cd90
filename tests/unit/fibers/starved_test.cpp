// Fibers in a scheduler whose kernel refuses stacks.

#include "unit/fibers/fiber_fixture.hpp"
#include <verge/base/detail/kernel.hpp>
#include <verge/fibers/detail/stack_pool.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace verge::fibers {
namespace {

// How many stacks the kernel still guards, and how often it was asked for one in vain.  Function
// pointers carry no object: set up by each test, after its scheduler has tried which guard there
// is.
std::atomic<int> stacks_left{0};
std::atomic<int> refusals{0};

bool refuses() {
    int left = stacks_left;
    while (left > 0 && !stacks_left.compare_exchange_weak(left, left - 1)) {
    }
    if (left > 0) return false;
    ++refusals;
    errno = ENOMEM;
    return true;
}

struct strict_kernel final : verge::detail::kernel {
    int madvise(void* begin, std::size_t bytes, int advice) noexcept override {
        constexpr int guard_install = 102;
        if (advice == guard_install && refuses()) return -1;
        return kernel::madvise(begin, bytes, advice);
    }
    int mprotect(void* begin, std::size_t bytes, int access) noexcept override {
        return refuses() ? -1 : kernel::mprotect(begin, bytes, access);
    }
};

class StarvedFibers : public testing::Test {
    // Static: the shared timer thread may be inside one of its calls when the test ends.
    static inline strict_kernel strict;
    const verge::detail::replaced_kernel scope_{strict};

protected:
    void SetUp() override {
        stacks_left = 1 << 30;
        refusals = 0;
    }
    static scheduler::options on_strict(std::size_t min_workers, std::size_t max_workers) {
        return {.min_workers = min_workers, .max_workers = max_workers};
    }
    static bool starving(const scheduler& fibers, std::uint64_t count) {
        return eventually([&] { return fibers.stats().starved == count; });
    }
};

TEST_F(StarvedFibers, ARefusedStackIsACountedWait) {
    scheduler fibers(on_strict(1, 1));
    stacks_left = 2;
    door end;
    std::vector<int> order;  // of the one worker
    std::vector<fiber<>> all;
    for (int i = 0; i < 5; ++i) {
        all.push_back(fibers.spawn(
            [&, i] {
                order.push_back(i);
                EXPECT_TRUE(end.wait());
            },
            {.name = std::to_string(i)}));
    }
    ASSERT_TRUE(starving(fibers, 3));
    ASSERT_TRUE(eventually([&] { return fibers.stats().waiting == 5; })) << "three of them starve";
    EXPECT_EQ(fibers.stats().runnable, 0U);
    EXPECT_EQ(fibers.stats().stacks_refused, 3U);
    for (const fiber_info& each : fibers.living()) {
        EXPECT_EQ(each.state(), fiber_state::waiting);
        EXPECT_EQ(each.waits_for, each.name < "2" ? wait_kind::word : wait_kind::stack)
            << each.name;
    }
    end.open();
    for (fiber<>& f : all)
        ASSERT_TRUE(f.wait_for(patience));
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4})) << "first come, first served";
    EXPECT_EQ(fibers.stats().stacks_refused, 3U) << "a wait counts once";
    EXPECT_EQ(fibers.stats().starved, 0U);
}

// Nobody gives a stack back: the kernel is asked from time to time, by a worker that sleeps
// between.
TEST_F(StarvedFibers, AreTriedAgainWithoutABusyWorker) {
    scheduler fibers(on_strict(1, 1));
    stacks_left = 0;
    fiber<> f = fibers.spawn([] {});
    ASSERT_TRUE(starving(fibers, 1));
    const std::uint64_t parks = fibers.stats().parks;  // the first, else some are missed
    const int asked = refusals;
    ASSERT_TRUE(eventually([&] { return refusals >= asked + 5; }));
    // Sleeps before each.
    const int asked_again = refusals - asked;
    EXPECT_GE(fibers.stats().parks - parks + 1, static_cast<std::uint64_t>(asked_again));
    EXPECT_FALSE(f.wait_for(0s));
    stacks_left = 1;
    EXPECT_TRUE(f.wait_for(patience));
}

TEST_F(StarvedFibers, GetTheirTurnWhileOthersYield) {
    scheduler fibers(on_strict(1, 1));
    stacks_left = 2;
    std::atomic<bool> over{false};
    std::vector<fiber<>> busy;
    for (int i = 0; i < 2; ++i) {
        busy.push_back(fibers.spawn([&] {
            while (!over)
                this_fiber::yield();
        }));
    }
    ASSERT_TRUE(eventually([&] { return fibers.stats().stacks == 2; }));
    fiber<> f = fibers.spawn([] {});
    ASSERT_TRUE(starving(fibers, 1));
    const std::uint64_t switches = fibers.stats().switches;
    const int asked = refusals;
    ASSERT_TRUE(eventually([&] { return refusals >= asked + 2; }));
    // Not at each switch: between two there are 61 at least, however slow they are.
    const auto between = static_cast<std::uint64_t>(refusals - asked - 1);
    EXPECT_GE(fibers.stats().switches - switches, 61 * between);
    stacks_left = 1;
    EXPECT_TRUE(f.wait_for(patience));
    over = true;
}

// The worker that was refused goes on to a fiber that never stops: another one tries again.
TEST_F(StarvedFibers, AreNotStrandedByAHog) {
    for (const std::size_t least : {std::size_t{1}, std::size_t{2}}) {
        scheduler::options opts = on_strict(least, 2);
        opts.idle = 1ms;
        scheduler fibers(opts);
        stacks_left = 0;
        fiber<> f = fibers.spawn([] {});
        ASSERT_TRUE(starving(fibers, 1));
        tally there;
        std::atomic<bool> over{false};
        fiber<> hog = fibers.spawn(
            [&] {
                there.add();
                EXPECT_TRUE(spin_until([&] { return over.load(); }));
            },
            {.stack = stack_kind::native});
        ASSERT_TRUE(there.reaches(1));
        const int asked = refusals;
        EXPECT_TRUE(eventually([&] { return refusals >= asked + 3; }));
        stacks_left = 1;
        EXPECT_TRUE(f.wait_for(patience));
        over = true;
    }
}

TEST_F(StarvedFibers, GetTheirTurnWhileTheWorkerSpins) {
    scheduler::options opts = on_strict(1, 1);
    opts.spin = std::numeric_limits<unsigned>::max();
    scheduler fibers(opts);
    stacks_left = 0;
    fiber<> f = fibers.spawn([] {});
    ASSERT_TRUE(starving(fibers, 1));
    stacks_left = 1;
    EXPECT_TRUE(f.wait_for(patience));
}

// A stack of one kind is for those who wait for that kind.
TEST_F(StarvedFibers, WaitByKind) {
    scheduler fibers(on_strict(1, 1));
    stacks_left = 1;
    door end;
    fiber<> first = fibers.spawn([&] { EXPECT_TRUE(end.wait()); }, {.stack = stack_kind::small});
    fiber<> large = fibers.spawn([] {}, {.stack = stack_kind::large});
    fiber<> small = fibers.spawn([] {}, {.stack = stack_kind::small});
    ASSERT_TRUE(starving(fibers, 2));
    end.open();
    ASSERT_TRUE(small.wait_for(patience));
    EXPECT_EQ(fibers.stats().starved, 1U);
    EXPECT_FALSE(large.wait_for(0s));
    stacks_left = 1;
    EXPECT_TRUE(large.wait_for(patience));
}

// What idle workers keep for themselves is called in: two stacks suffice for two fibers.
TEST_F(StarvedFibers, GetWhatIdleWorkersKeep) {
    scheduler fibers(on_strict(2, 2));
    stacks_left = 2;
    for (int round = 0; round < 200; ++round) {
        door end;
        tally there;
        std::vector<fiber<>> both;
        for (int i = 0; i < 2; ++i) {
            both.push_back(fibers.spawn([&] {
                there.add();
                EXPECT_TRUE(end.wait());
            }));
        }
        ASSERT_TRUE(there.reaches(2)) << round;
        end.open();
        for (fiber<>& f : both)
            f.join();
    }
}

TEST_F(StarvedFibers, AreNamedByStopAndRunInTheEnd) {
    scheduler fibers(on_strict(2, 2));
    stacks_left = 0;
    std::atomic<int> ran{0};
    for (int i = 0; i < 20; ++i) {
        fibers.spawn([&] { ++ran; }, {.name = "starved"}).detach();
    }
    ASSERT_TRUE(starving(fibers, 20));
    const std::vector<fiber_info> stuck = fibers.stop(now());
    ASSERT_EQ(stuck.size(), 20U);
    EXPECT_TRUE(std::all_of(stuck.begin(), stuck.end(), [](const fiber_info& each) {
        return each.name == "starved" && each.waits_for == wait_kind::stack;
    }));
    stacks_left = 1;
    EXPECT_TRUE(fibers.stop().empty());
    EXPECT_EQ(ran, 20);
}

// Refused now and then, with many workers.
TEST_F(StarvedFibers, AllFinish) {
    constexpr int count = 2000;
    scheduler fibers(on_strict(2, 4));
    stacks_left = 7;
    std::atomic<int> ran{0};
    std::vector<fiber<>> all;
    for (int i = 0; i < count; ++i) {
        all.push_back(fibers.spawn(
            [&, i] {
                if (i % 3 == 0) this_fiber::yield();
                if (i % 7 == 0) this_fiber::sleep_for(10us);
                ++ran;
            },
            {.stack = i % 2 == 0 ? stack_kind::small : stack_kind::normal}));
        if (i == count / 2) stacks_left = 3;
    }
    for (fiber<>& f : all)
        ASSERT_TRUE(f.wait_for(patience));
    EXPECT_EQ(ran, count);
    EXPECT_GT(fibers.stats().stacks_refused, 0U);
}

}  // namespace
}  // namespace verge::fibers
