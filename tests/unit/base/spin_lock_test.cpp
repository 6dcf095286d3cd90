#include <verge/base/detail/spin_lock.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

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

std::chrono::nanoseconds cpu_time_of_this_thread() {
    timespec spent{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

// How often a thread of this process went to sleep.  Being preempted and yielding do not count.
long sleeps_of(pid_t thread) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    const std::string field = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(field)) return std::stol(line.substr(field.size()));
    }
    return -1;
}

// Holds the lock for long, since that is what it is about: for 50 ms, and until the waiter has
// slept some times, which on a busy machine may take longer.
TEST(SpinLock, AWaiterGivesWayToTheKernel) {
    using clock = std::chrono::steady_clock;
    spin_lock lock;
    std::atomic<pid_t> waiter_thread{0};
    std::chrono::nanoseconds spent{};
    clock::time_point entered;

    lock.lock();
    const auto locked = clock::now();
    std::thread waiter([&] {
        const auto before = cpu_time_of_this_thread();
        waiter_thread.store(static_cast<pid_t>(::syscall(SYS_gettid)));
        const lock_scope hold(lock);
        entered = clock::now();
        spent = cpu_time_of_this_thread() - before;
    });
    while (waiter_thread.load() == 0) {
        std::this_thread::yield();
    }
    const long before = sleeps_of(waiter_thread.load());
    EXPECT_GE(before, 0);
    long sleeps = 0;
    do {
        std::this_thread::sleep_for(50ms);
        sleeps = sleeps_of(waiter_thread.load()) - before;
    } while (sleeps < 10 && clock::now() - locked < 40s);
    const auto released = clock::now();
    lock.unlock();
    waiter.join();

    EXPECT_GE(sleeps, 10) << "it sleeps";
    EXPECT_LT(spent, (released - locked) / 2) << "and does not burn the time of the holder";
    EXPECT_GE(entered, released) << "it waited";
}

// A waiter that sleeps is not woken: it looks again by itself, also after many rounds.
TEST(SpinLock, ManyWaitersAllGetThroughAfterALongHold) {
    guarded_counter counter;
    std::atomic<int> waiting{0};
    counter.lock.lock();
    std::vector<std::thread> waiters;
    for (int i = 0; i < thread_count; ++i) {
        waiters.emplace_back([&] {
            waiting.fetch_add(1);
            counter.count();
        });
    }
    while (waiting.load() != thread_count)
        std::this_thread::yield();
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(counter.value, 0);
    counter.lock.unlock();
    for (std::thread& t : waiters)
        t.join();
    EXPECT_TRUE(counter.is(thread_count));
}

}  // namespace
}  // namespace verge::detail
