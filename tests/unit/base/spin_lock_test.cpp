#include "support/eventually.hpp"
#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/spin_lock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <time.h>

#include <gtest/gtest.h>

namespace verge::detail {
namespace {

using namespace std::chrono_literals;

// Not atomic: a lock that lets two in at once loses counts, and TSan reports it.
struct guarded_counter {
    spin_lock lock;
    long value VERGE_GUARDED_BY(lock) = 0;
    std::array<long, 8> spread VERGE_GUARDED_BY(lock) = {};  // takes a while to change as a whole

    void count() {
        const lock_scope hold(lock);
        count_locked();
    }
    void count_locked() VERGE_REQUIRES(lock) {
        ++value;
        for (long& part : spread)
            ++part;
    }
    [[nodiscard]] bool is(long expected) {
        const lock_scope hold(lock);
        for (const long part : spread) {
            if (part != expected) return false;
        }
        return value == expected;
    }
};

constexpr int thread_count = 4;

template <class Work>
void in_threads(Work work) {
    std::atomic<int> waiting{thread_count};
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) {
        threads.emplace_back([&] {
            waiting.fetch_sub(1);
            while (waiting.load() != 0)
                std::this_thread::yield();
            work();
        });
    }
    for (std::thread& t : threads)
        t.join();
}

TEST(SpinLock, LetsOneThreadInAtATime) {
    constexpr int rounds = 50'000;
    guarded_counter counter;
    in_threads([&] {
        for (int i = 0; i < rounds; ++i)
            counter.count();
    });
    EXPECT_TRUE(counter.is(long{thread_count} * rounds));
}

TEST(SpinLock, TryLockLetsOneThreadInAtATime) {
    constexpr int rounds = 50'000;
    guarded_counter counter;
    std::atomic<long> entered{0};
    in_threads([&] {
        for (int i = 0; i < rounds; ++i) {
            if (!counter.lock.try_lock()) continue;
            counter.count_locked();
            counter.lock.unlock();
            entered.fetch_add(1);
        }
    });
    EXPECT_GT(entered.load(), 0);
    EXPECT_TRUE(counter.is(entered.load()));
}

// In functions of their own: the analysis of clang follows a lock through plain code only.
bool take_and_give_back(spin_lock& lock) {
    if (!lock.try_lock()) return false;
    lock.unlock();
    return true;
}

bool another_thread_gets(spin_lock& lock) {
    bool got = false;
    std::thread([&] { got = take_and_give_back(lock); }).join();
    return got;
}

TEST(SpinLock, TryLockSaysWhetherItGotTheLock) {
    spin_lock lock;
    EXPECT_TRUE(take_and_give_back(lock));
    EXPECT_TRUE(take_and_give_back(lock)) << "it was given back";
    lock.lock();
    EXPECT_FALSE(another_thread_gets(lock));
    EXPECT_FALSE(another_thread_gets(lock)) << "a failed try changes nothing";
    lock.unlock();
    EXPECT_TRUE(another_thread_gets(lock));
}

TEST(SpinLock, ScopeHoldsItToItsEnd) {
    spin_lock lock;
    {
        const lock_scope hold(lock);
        EXPECT_FALSE(another_thread_gets(lock));
    }
    EXPECT_TRUE(another_thread_gets(lock));
}

// The yields and naps of a waiter.  Frees the lock at the tenth nap, or if there is none.
struct naps_and_yields : kernel {
    spin_lock lock;
    int yields = 0;
    std::vector<std::chrono::nanoseconds> naps;

    int sched_yield() noexcept override {
        EXPECT_TRUE(naps.empty()) << "it yields, and then it sleeps";
        if (++yields == 10'000) release();
        return 0;
    }
    int clock_nanosleep(clockid_t, int, const timespec* time, timespec*) noexcept override {
        naps.push_back(std::chrono::seconds(time->tv_sec) +
                       std::chrono::nanoseconds(time->tv_nsec));
        if (naps.size() == 10) release();
        return 0;
    }
    void release() VERGE_NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); }
};

TEST(SpinLock, AWaiterGivesWayToTheKernel) {
    naps_and_yields seen;
    const replaced_kernel scope(seen);
    static_cast<void>(seen.lock.try_lock());
    {
        const lock_scope waits(seen.lock);
        ASSERT_EQ(seen.naps.size(), 10U);
    }
    EXPECT_GT(seen.yields, 0);
    EXPECT_TRUE(std::is_sorted(seen.naps.begin(), seen.naps.end()));
    EXPECT_LT(seen.naps.front(), 1ms);
    EXPECT_EQ(seen.naps.back(), 1ms);
}

// Counts the threads that have slept.
struct counts_sleepers : kernel {
    std::atomic<int> sleepers{0};
    int clock_nanosleep(clockid_t clock, int flags, const timespec* time,
                        timespec* left) noexcept override {
        static thread_local bool counted = false;
        if (!std::exchange(counted, true)) ++sleepers;
        return kernel::clock_nanosleep(clock, flags, time, left);
    }
};

// A waiter that sleeps is not woken: it looks again by itself.
TEST(SpinLock, ManyWaitersAllGetThroughAfterALongHold) {
    counts_sleepers seen;
    const replaced_kernel scope(seen);
    guarded_counter counter;
    counter.lock.lock();
    std::vector<std::thread> waiters;
    for (int i = 0; i < thread_count; ++i)
        waiters.emplace_back([&] { counter.count(); });
    EXPECT_TRUE(eventually([&] { return seen.sleepers == thread_count; }));
    EXPECT_EQ(counter.value, 0);
    counter.lock.unlock();
    for (std::thread& t : waiters)
        t.join();
    EXPECT_TRUE(counter.is(thread_count));
}

}  // namespace
}  // namespace verge::detail
