#define VERGE_FAILING_NEW_ELSEWHERE
#include "support/failing_new.hpp"
#include <verge/io/detail/thread_cache.hpp>

#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verge::detail::io {
namespace {

constexpr std::size_t size = 40;

std::vector<void*> allocate(int count) {
    std::vector<void*> blocks;
    for (int i = 0; i < count; ++i) {
        blocks.push_back(allocate_cached(size));
        std::memset(blocks.back(), 0xAB, size);
    }
    return blocks;
}

void deallocate(const std::vector<void*>& blocks) {
    for (void* const block : blocks)
        deallocate_cached(block, size);
}

TEST(ThreadCache, AThreadGetsItsOwnBlockBack) {
    void* const block = allocate_cached(size);
    deallocate_cached(block, size);
    void* const again = allocate_cached(size);
    EXPECT_EQ(again, block);
    deallocate_cached(again, size);
}

TEST(ThreadCache, NoBlockIsGivenOutTwice) {
    for (const int count : {1, 31, 32, 33, 64, 65, 96, 97, 1000}) {
        for (int round = 0; round < 3; ++round) {
            const std::vector<void*> blocks = allocate(count);
            EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
            deallocate(blocks);
        }
    }
}

#if VERGE_CAN_REFUSE_MEMORY
TEST(ThreadCache, WhatOneThreadFreesAnotherOneGets) {
    // This one allocates, the other one frees, until there is enough on the way.
    std::vector<void*> blocks = allocate(1000);
    std::thread([&] { deallocate(blocks); }).join();
    // A thread that found nothing there does not ask at once again.
    blocks = allocate(64);
    blocks.reserve(64 + 256);
    {
        const failing_new next(1);  // any allocation in here throws
        for (int i = 0; i < 256; ++i)
            blocks.push_back(allocate_cached(size));
        EXPECT_FALSE(next.struck());
    }
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
    deallocate(blocks);
}

// Each one is asked of operator new, also when one of its size has just been freed.
TEST(ThreadCache, LargeBlocksAreNotKept) {
    constexpr std::size_t large = 100'000;
    void* const block = allocate_cached(large);
    std::memset(block, 0xAB, large);
    deallocate_cached(block, large);
    void* again = nullptr;
    {
        const failing_new next(1);
        try {
            again = allocate_cached(large);
        } catch (const std::bad_alloc&) {
        }
    }
    EXPECT_EQ(again, nullptr) << "operator new was not asked";
    deallocate_cached(again, large);
}
#endif

}  // namespace
}  // namespace verge::detail::io
