#include "support/build.hpp"
#include <verge/base/detail/annotate.hpp>
#include <verge/base/detail/kernel.hpp>
#include <verge/fibers/detail/execution.hpp>
#include <verge/fibers/detail/stack_pool.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge::fibers::detail {
namespace {

using verge::detail::has_asan;
using verge::detail::has_tsan;

const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
constexpr std::size_t kib = 1024;

std::size_t mappings_of_the_process() {
    std::ifstream maps("/proc/self/maps");
    std::size_t lines = 0;
    for (std::string line; std::getline(maps, line);)
        ++lines;
    return lines;
}

std::size_t resident_pages(const stack& s) {
    const auto begin = reinterpret_cast<std::uintptr_t>(s.low);
    const auto end = (reinterpret_cast<std::uintptr_t>(s.top) + page - 1) / page * page;
    std::vector<unsigned char> pages((end - begin) / page);
    EXPECT_EQ(::mincore(s.low, end - begin, pages.data()), 0);
    return static_cast<std::size_t>(
        std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; }));
}

void touch_all(const stack& s) {
    for (std::byte* at = s.low; at < s.top; at += page)
        *at = std::byte{1};
}

// ---- a kernel that refuses ----------------------------------------------------------------------
// What it refuses is set up by each test.

struct refusals {
    int calls = 0;       // of all kinds
    int refuse_at = -1;  // this call, counted from 0
    int refuse_from = 1 << 30;
    int error = ENOMEM;
    bool knows_guards = true;
    bool only_nods = false;  // takes any advice, and does nothing
    std::size_t largest_map = ~std::size_t{0};
    std::size_t mapped = 0;  // mappings not unmapped

    bool refuse() {
        const int n = calls++;
        if (n != refuse_at && n < refuse_from) return false;
        errno = error;
        return true;
    }
};
refusals told;

struct strict_kernel final : verge::detail::kernel {
    void* mmap(void* at, std::size_t bytes, int access, int flags, int fd,
               off_t offset) noexcept override {
        if (bytes > told.largest_map) return errno = ENOMEM, MAP_FAILED;
        if (told.refuse()) return MAP_FAILED;
        ++told.mapped;
        return kernel::mmap(at, bytes, access, flags, fd, offset);
    }
    int munmap(void* begin, std::size_t bytes) noexcept override {
        --told.mapped;
        return kernel::munmap(begin, bytes);
    }
    int madvise(void* begin, std::size_t bytes, int advice) noexcept override {
        constexpr int guard_install = 102;
        if (told.only_nods) return 0;
        if (advice == guard_install && !told.knows_guards) return errno = EINVAL, -1;
        if (told.refuse()) return -1;
        return kernel::madvise(begin, bytes, advice);
    }
    int mprotect(void* begin, std::size_t bytes, int access) noexcept override {
        if (told.refuse()) return -1;
        return kernel::mprotect(begin, bytes, access);
    }
    ssize_t process_madvise_self(const iovec*, std::size_t, int) noexcept override {
        return errno = ENOSYS, -1;
    }
};
strict_kernel strict;

class StackPoolOnAStrictKernel : public testing::Test {
protected:
    void SetUp() override { told = {}; }

private:
    const verge::detail::replaced_kernel scope_{strict};
};

// ---- what a stack is ----------------------------------------------------------------------------

TEST(StackPool, RoundsItsSizeUpToPages) {
    for (const std::size_t wanted : {std::size_t{1}, page - 1, page, page + 1, 64 * kib}) {
        stack_pool pool({.stack_size = wanted});
        stack* const s = pool.take().taken;
        ASSERT_NE(s, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(s->low) % page, 0U);
        EXPECT_EQ(static_cast<std::size_t>(s->top - s->low), (wanted + page - 1) / page * page);
        touch_all(*s);
        pool.give_back(s);
    }
}

TEST(StackPool, RefusesNonsense) {
    EXPECT_THROW(stack_pool({.stack_size = 0}), std::invalid_argument);
    EXPECT_THROW(stack_pool({.stack_size = ~std::size_t{0}}), std::invalid_argument);
    EXPECT_THROW(stack_pool({.stack_size = (std::size_t{1} << 30) + 1}), std::invalid_argument);
    stack_pool largest({.stack_size = std::size_t{1} << 30});
    const auto [s, result] = largest.take();
    ASSERT_NE(s, nullptr);
    *(s->top - 1) = std::byte{1};
    largest.give_back(s);
}

TEST(StackPool, ColoursTopsByCacheLines) {
    stack_pool pool({.stack_size = 16 * kib});
    std::vector<stack*> taken;
    std::map<std::uintptr_t, int> colours;
    for (int i = 0; i < 32; ++i) {
        taken.push_back(pool.take().taken);
        const auto top = reinterpret_cast<std::uintptr_t>(taken.back()->top);
        EXPECT_EQ(top % 64, 0U);
        ++colours[top % page];
    }
    EXPECT_EQ(colours.size(), 16U);
    for (const auto& [colour, count] : colours)
        EXPECT_EQ(count, 2) << colour;
    for (stack* s : taken)
        pool.give_back(s);
}

TEST(StackPool, StacksDoNotOverlap) {
    stack_pool pool({.stack_size = 8 * kib});
    std::vector<stack*> taken;
    for (int i = 0; i < 100; ++i)
        taken.push_back(pool.take().taken);
    std::sort(taken.begin(), taken.end(),
              [](const stack* a, const stack* b) { return a->low < b->low; });
    for (std::size_t i = 1; i < taken.size(); ++i)
        EXPECT_LE(taken[i - 1]->top + page, taken[i]->low) << "with a guard between";
    for (stack* s : taken)
        pool.give_back(s);
}

TEST(StackPool, RunsAnExecution) {
    stack_pool pool({});
    struct run {
        execution thread;
        execution fiber;
        int ran = 0;
    };
    thread_state here;
    static thread_state* state = nullptr;
    state = &here;
    for (int i = 0; i < 50; ++i) {
        stack* const s = pool.take().taken;
        run r;
        r.fiber.prepare(
            s->low, s->top,
            [](void* argument) noexcept {
                auto* const of = static_cast<run*>(argument);
                std::array<volatile char, 3000> ballast{};
                ballast[7] = 1;
                of->ran += ballast[7];
                of->fiber.finish(of->thread, *state);
            },
            &r);
        r.thread.switch_to(r.fiber, here);
        EXPECT_EQ(r.ran, 1);
        pool.give_back(s);
    }
    EXPECT_EQ(pool.stats().made, 1U);
}

// ---- guards -------------------------------------------------------------------------------------

// And by nothing else.  A sanitizer catches the signal, reports it and exits by itself.
bool by_segv(int status) {
    if (has_asan || has_tsan) return WIFEXITED(status) && WEXITSTATUS(status) != 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

void overflow() {
    stack_pool pool({.stack_size = 16 * kib});
    stack* const first = pool.take().taken;
    stack* const second = pool.take().taken;
    touch_all(*first);
    touch_all(*second);
    volatile std::byte* const below = second->low - 1;
    *below = std::byte{1};
    std::_Exit(0);  // not reached
}

TEST(StackPoolDeathTest, AGuardStopsAnOverflow) {
    told = {};
    EXPECT_EXIT(overflow(), by_segv, "");
    EXPECT_EXIT(
        {
            told.knows_guards = false;
            const verge::detail::replaced_kernel scope(strict);
            overflow();
        },
        by_segv, "");
}

TEST(StackPoolDeathTest, AGuardOutlivesTrim) {
    stack_pool pool({.stack_size = 16 * kib, .keep = 0});
    stack* const used = pool.take().taken;
    stack* const s = pool.take().taken;
    touch_all(*s);
    pool.give_back(s);
    pool.trim();
    EXPECT_EQ(pool.take().taken, s);
    volatile std::byte* const below = s->low - 1;
    EXPECT_EXIT(*below = std::byte{1}, by_segv, "");
    pool.give_back(s);
    pool.give_back(used);
}

#ifndef NDEBUG
TEST(StackPoolDeathTest, AStackIsNotGivenBackTwice) {
    stack_pool pool({});
    stack* const s = pool.take().taken;
    pool.give_back(s);
    EXPECT_DEATH(pool.give_back(s), "given back twice");
}
#endif

TEST_F(StackPoolOnAStrictKernel, FallsBackToMprotect) {
    stack_pool modern({});
    EXPECT_NE(modern.stats().guard, guard_kind::none);
    told.knows_guards = false;
    stack_pool old({});
    EXPECT_EQ(old.stats().guard, guard_kind::mprotect);
    old.give_back(old.take().taken);
    stack_pool without({.guards = false});
    EXPECT_EQ(without.stats().guard, guard_kind::none);
    without.give_back(without.take().taken);
}

// As qemu-user does.
TEST_F(StackPoolOnAStrictKernel, TrustsNoGuardThatIsNone) {
    told.only_nods = true;
    stack_pool pool({});
    EXPECT_EQ(pool.stats().guard, guard_kind::mprotect);
    pool.give_back(pool.take().taken);
}

// Memory was locked after the pool was made, for instance.
TEST_F(StackPoolOnAStrictKernel, FallsBackToMprotectLater) {
    stack_pool pool({});
    if (pool.stats().guard != guard_kind::madvise) GTEST_SKIP() << "no MADV_GUARD_INSTALL here";
    stack* const first = pool.take().taken;
    told.knows_guards = false;
    stack* const second = pool.take().taken;
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(pool.stats().guard, guard_kind::mprotect);
    pool.give_back(first);
    pool.give_back(second);
}

// ---- refusals -----------------------------------------------------------------------------------

TEST_F(StackPoolOnAStrictKernel, SaysWhetherTheLimitOrTheKernelRefused) {
    stack_pool pool({.max_stacks = 2});
    stack* const a = pool.take().taken;
    told.refuse_from = told.calls;
    const auto by_kernel = pool.take();
    EXPECT_EQ(by_kernel.taken, nullptr);
    EXPECT_EQ(by_kernel.result, stack_result::kernel);
    told.refuse_from = 1 << 30;
    stack* const b = pool.take().taken;
    ASSERT_NE(b, nullptr);
    const auto by_limit = pool.take();
    EXPECT_EQ(by_limit.taken, nullptr);
    EXPECT_EQ(by_limit.result, stack_result::limit);
    const stack_pool_stats stats = pool.stats();
    EXPECT_EQ(stats.refused_by_kernel, 1U);
    EXPECT_EQ(stats.refused_by_limit, 1U);
    EXPECT_EQ(stats.in_use, 2U);
    EXPECT_EQ(stats.made, 2U);
    pool.give_back(a);
    EXPECT_EQ(pool.take().taken, a) << "one came back: there is room";
    pool.give_back(a);
    pool.give_back(b);
}

TEST_F(StackPoolOnAStrictKernel, AnUnguardedStackIsNeverGivenOut) {
    told.knows_guards = false;
    stack_pool pool({});
    stack* const a = pool.take().taken;
    told.refuse_from = told.calls;  // max_map_count is reached
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(pool.take().result, stack_result::kernel);
    pool.give_back(a);
    EXPECT_EQ(pool.take().taken, a) << "it has its guard";
    pool.give_back(a);
}

TEST_F(StackPoolOnAStrictKernel, ARefusalLeavesThePoolWhole) {
    for (const bool knows_guards : {true, false}) {
        for (int at = 0;; ++at) {
            told = {.refuse_at = at, .knows_guards = knows_guards};
            {
                stack_pool pool({.stack_size = 16 * kib, .max_stacks = 4, .keep = 1});
                std::set<stack*> taken;
                // Two refusals at most: the one injected may be met by the probe, or do no harm.
                for (int tries = 0; tries < 6 && taken.size() < 4; ++tries) {
                    const auto [s, result] = pool.take();
                    EXPECT_EQ(s == nullptr, result != stack_result::taken);
                    if (s == nullptr) continue;
                    EXPECT_TRUE(taken.insert(s).second);
                    touch_all(*s);
                }
                EXPECT_EQ(taken.size(), 4U) << at;
                EXPECT_EQ(pool.stats().in_use, 4U);
                EXPECT_EQ(pool.take().result, stack_result::limit);
                for (stack* s : taken)
                    pool.give_back(s);
                EXPECT_EQ(pool.stats().in_use, 0U);
                stack* const again = pool.take().taken;
                EXPECT_TRUE(taken.contains(again));
                pool.trim();
                pool.give_back(again);
                pool.trim();
                EXPECT_EQ(pool.stats().made, 0U);
            }
            EXPECT_EQ(told.mapped, 0U) << "a mapping is left over";
            if (told.calls <= at) break;  // it met no call any more
        }
    }
}

TEST_F(StackPoolOnAStrictKernel, TakesASmallerRegionWhereALargeOneIsRefused) {
    told.largest_map = std::size_t{1} << 20;
    stack_pool pool({.stack_size = 64 * kib});
    std::vector<stack*> taken;
    for (int i = 0; i < 50; ++i) {
        taken.push_back(pool.take().taken);
        ASSERT_NE(taken.back(), nullptr);
    }
    EXPECT_GT(pool.stats().mappings, 3U);
    told.largest_map = 0;
    while (stack* const s = pool.take().taken)
        taken.push_back(s);
    EXPECT_EQ(pool.stats().refused_by_kernel, 1U);
    for (stack* s : taken)
        pool.give_back(s);
}

TEST(StackPool, OfLimitZeroHasNone) {
    stack_pool pool({.max_stacks = 0});
    EXPECT_EQ(pool.take().result, stack_result::limit);
    stack_list list;
    EXPECT_EQ(pool.take(3, list), stack_result::limit);
    EXPECT_TRUE(list.empty());
}

// ---- reuse and memory ---------------------------------------------------------------------------

TEST(StackPool, GivesTheLastOneFirst) {
    stack_pool pool({});
    stack* const a = pool.take().taken;
    stack* const b = pool.take().taken;
    pool.give_back(a);
    pool.give_back(b);
    EXPECT_EQ(pool.take().taken, b);
    EXPECT_EQ(pool.take().taken, a);
    EXPECT_EQ(pool.stats().made, 2U);
    pool.give_back(a);
    pool.give_back(b);
}

TEST(StackPool, MovesBatches) {
    stack_pool pool({.max_stacks = 10});
    stack_list cache;
    EXPECT_EQ(pool.take(8, cache), stack_result::taken);
    EXPECT_EQ(cache.size(), 1U) << "a batch makes one stack at most";
    while (cache.size() < 10)
        EXPECT_EQ(pool.take(1, cache), stack_result::taken);
    EXPECT_EQ(pool.take(4, cache), stack_result::limit);
    EXPECT_EQ(pool.stats().in_use, 10U);
    pool.give_back(cache, 7);
    EXPECT_EQ(cache.size(), 3U);
    EXPECT_EQ(pool.stats().in_use, 3U);
    EXPECT_EQ(pool.take(4, cache), stack_result::taken);
    EXPECT_EQ(cache.size(), 7U);
    EXPECT_EQ(pool.take(0, cache), stack_result::taken);
    pool.give_back(cache, 100);
    EXPECT_TRUE(cache.empty());
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_EQ(pool.stats().kept, 10U);
}

TEST(StackPool, AShallowStackCostsOnePage) {
    stack_pool pool({.stack_size = 64 * kib});
    std::vector<stack*> taken;
    for (int i = 0; i < 64; ++i) {
        stack* const s = pool.take().taken;
        taken.push_back(s);
        EXPECT_EQ(resident_pages(*s), 0U) << "never used";
        std::memset(s->top - 2 * kib, 1, 2 * kib);
        EXPECT_EQ(resident_pages(*s), 1U);
    }
    for (stack* s : taken) {
        pool.give_back(s);
        EXPECT_EQ(resident_pages(*s), 1U) << "nothing is written to a free stack";
    }
}

TEST(StackPool, TrimGivesMemoryBack) {
    stack_pool pool({.stack_size = 64 * kib});
    stack* const used = pool.take().taken;
    stack* const s = pool.take().taken;
    touch_all(*used);
    touch_all(*s);
    EXPECT_EQ(resident_pages(*s), 64 * kib / page);
    pool.give_back(s);
    EXPECT_EQ(pool.stats().kept, 1U);
    EXPECT_EQ(resident_pages(*s), 64 * kib / page);
    pool.trim();
    EXPECT_EQ(pool.stats().kept, 0U);
    EXPECT_EQ(resident_pages(*s), 0U);
    EXPECT_EQ(resident_pages(*used), 64 * kib / page);
    EXPECT_EQ(pool.stats().made, 2U);
    pool.give_back(used);
    pool.trim();
    EXPECT_EQ(pool.stats().made, 0U);
    EXPECT_EQ(pool.stats().mappings, 0U);
    stack* const again = pool.take().taken;
    touch_all(*again);
    pool.give_back(again);
}

TEST(StackPool, KeepsTheMemoryOfSoManyStacks) {
    stack_pool pool({.stack_size = 16 * kib, .keep = 3});
    std::vector<stack*> taken;
    for (int i = 0; i < 10; ++i) {
        taken.push_back(pool.take().taken);
        touch_all(*taken.back());
    }
    for (stack* s : taken)
        pool.give_back(s);
    std::size_t pages = 0;
    for (const stack* s : taken)
        pages += resident_pages(*s);
    EXPECT_EQ(pages, 3 * 16 * kib / page);
    EXPECT_EQ(pool.stats().kept, 3U);
}

TEST(StackPool, AMillionStacksNeedFewMappings) {
    stack_pool pool({.stack_size = 64 * kib});
    if (pool.stats().guard != guard_kind::madvise) GTEST_SKIP() << "no MADV_GUARD_INSTALL here";
    rlimit space{};
    ::getrlimit(RLIMIT_AS, &space);
    if (space.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "address space is limited";
    // ASan's shadow of a stack is written when it is given back.
    const std::size_t many = has_asan ? 5'000 : has_tsan ? 20'000 : 1'000'000;
    const std::size_t before = mappings_of_the_process();
    stack_list taken;
    while (taken.size() < many) {
        const auto [s, result] = pool.take();
        ASSERT_NE(s, nullptr) << taken.size();
        taken.push(s);
    }
    EXPECT_EQ(pool.stats().made, many);
    EXPECT_LT(pool.stats().mappings, 50U);
    EXPECT_LT(mappings_of_the_process(), before + 100);
    pool.give_back(taken, many);
    pool.trim();
    // The sanitizers have mappings of their own for memory that was used.
    if (!has_asan && !has_tsan) {
        EXPECT_LE(mappings_of_the_process(), before + 2);
    }
}

#if !VERGE_HAS_SANITIZER  // a sanitizer needs mappings as well
// The real kernel's refusal: mprotect splits mappings, and vm.max_map_count ends that.
TEST_F(StackPoolOnAStrictKernel, RefusesWhereMprotectRunsOutOfMappings) {
    std::size_t allowed = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> allowed;
    if (allowed == 0 || allowed > 100'000) GTEST_SKIP() << "max_map_count is " << allowed;
    told.knows_guards = false;
    stack_pool pool({.stack_size = 4 * kib});
    stack_list taken;
    stack_result result = stack_result::taken;
    while (result == stack_result::taken && taken.size() < allowed)
        result = pool.take(1, taken);
    EXPECT_EQ(result, stack_result::kernel);
    EXPECT_GT(taken.size(), allowed / 2 - 2000);
    EXPECT_EQ(pool.stats().made, taken.size());
    EXPECT_EQ(pool.stats().refused_by_kernel, 1U);
    const std::size_t most = taken.size();
    pool.give_back(taken, most / 2);
    EXPECT_NE(pool.take(1, taken), stack_result::kernel) << "a free one needs no mapping";
    pool.give_back(taken, most);
    pool.trim();
    EXPECT_EQ(told.mapped, 0U);
    EXPECT_EQ(pool.take(1, taken), stack_result::taken) << "mappings have come back";
    pool.give_back(taken, 1);
}
#endif

TEST(StackPool, TellsItsFigures) {
    stack_pool pool({});
    static_assert(stats_snapshot<stack_pool_stats>);
    std::set<std::string> names;
    pool.stats().visit([&](std::string_view name, stat_kind, std::uint64_t, std::string_view) {
        names.emplace(name);
    });
    EXPECT_EQ(names.size(), 7U);
}

// ---- threads ------------------------------------------------------------------------------------

TEST(StackPool, ThreadsTakeAndGiveBackAtOnce) {
    constexpr std::size_t limit = 24;
    stack_pool pool({.stack_size = 8 * kib, .max_stacks = limit, .keep = 8});
    const auto work = [&](unsigned number) {
        stack_list mine;
        for (int i = 0; i < 2000; ++i) {
            const unsigned what = (static_cast<unsigned>(i) * 7 + number) % 11;
            if (what < 4) {
                static_cast<void>(pool.take(what, mine));
            } else if (what < 7) {
                if (stack* const s = pool.take().taken) {
                    // A plain write: two owners at once are a race that TSan sees.
                    *(s->top - 1) = static_cast<std::byte>(number);
                    pool.give_back(s);
                }
            } else if (what < 10) {
                pool.give_back(mine, what - 6);
            } else if (i % 5 == 0) {
                pool.trim();
            }
        }
        pool.give_back(mine, mine.size());
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back(work, t);
    for (std::thread& t : threads)
        t.join();
    const stack_pool_stats stats = pool.stats();
    EXPECT_EQ(stats.in_use, 0U);
    EXPECT_LE(stats.made, limit);
    EXPECT_EQ(stats.refused_by_kernel, 0U);
}

}  // namespace
}  // namespace verge::fibers::detail
