#include "support/in_child.hpp"
#include <verge/base/detail/biased_lock.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge::detail {
namespace {

// The real one, and what it was asked for.
struct watched_platform : bias_platform {
    static inline std::atomic<int> fences{0};
    static inline std::atomic<bool> fence_works{true};
    static inline std::atomic<std::uint32_t> time{0};

    static void heavy_fence() noexcept {
        bias_platform::heavy_fence();
        ++fences;
    }
    static bool has_heavy_fence() noexcept {
        return fence_works && bias_platform::has_heavy_fence();
    }
    static std::uint32_t ticks() noexcept { return time; }
};

using watched_lock = basic_biased_lock<watched_platform>;
constexpr int first_threshold = 1 << watched_platform::threshold;

template <class Lock>
void take(Lock& lock, int times = 1) {
    for (int i = 0; i < times; ++i) {
        lock.lock();
        lock.unlock();
    }
}

template <class Work>
void in_another_thread(Work work) {
    std::thread(work).join();
}

class BiasedLock : public testing::Test {
protected:
    void SetUp() override {
        bias_platform::prepare();
        if (!bias_platform::has_heavy_fence()) GTEST_SKIP() << "the kernel has no membarrier";
        watched_platform::fences = 0;
        watched_platform::fence_works = true;
        watched_platform::time = 0;
    }
    // How many fences it takes for another thread to get the lock: 1 if it leans to somebody else.
    int fences_for_another() {
        const int before = watched_platform::fences;
        in_another_thread([&] { take(lock_); });
        return watched_platform::fences - before;
    }
    watched_lock lock_;
};

TEST_F(BiasedLock, IsNeverBiasedIfThatWasDisabled) {
    lock_.disable_bias();
    take(lock_, 100'000);  // more than any threshold
    EXPECT_EQ(fences_for_another(), 0);
}

TEST_F(BiasedLock, LeansToAThreadThatTakesItManyTimesInARow) {
    take(lock_, first_threshold);  // the first of them is not in a row yet
    EXPECT_EQ(fences_for_another(), 0);
    take(lock_, first_threshold + 1);
    EXPECT_EQ(fences_for_another(), 1);
    EXPECT_EQ(fences_for_another(), 0) << "it was taken back";
}

TEST_F(BiasedLock, AnotherThreadInBetweenBeginsTheCountAnew) {
    for (int round = 0; round < 4; ++round) {
        take(lock_, first_threshold);
        EXPECT_EQ(fences_for_another(), 0);
    }
}

TEST_F(BiasedLock, WhoTakesItBackWaitsForTheOwner) {
    take(lock_, first_threshold + 1);
    std::atomic<bool> entered{false};
    lock_.lock();
    std::thread other([&] {
        lock_.lock();
        entered = true;
        lock_.unlock();
    });
    while (watched_platform::fences == 0)
        std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) {
        EXPECT_FALSE(entered);
        std::this_thread::yield();
    }
    lock_.unlock();
    other.join();
    EXPECT_TRUE(entered);
}

TEST_F(BiasedLock, WhatIsTakenBackAtOnceComesBackLater) {
    int needed = first_threshold;
    for (int round = 0; round < 3; ++round) {
        take(lock_, needed);
        EXPECT_EQ(fences_for_another(), 0) << needed;
        take(lock_, needed + 1);
        EXPECT_EQ(fences_for_another(), 1) << needed;
        needed *= 2;
    }
}

TEST_F(BiasedLock, WhatLastedComesBackAsSoonAsBefore) {
    for (int round = 0; round < 3; ++round) {
        take(lock_, first_threshold + 1);
        watched_platform::time += watched_platform::worthwhile;
        EXPECT_EQ(fences_for_another(), 1);
    }
}

TEST_F(BiasedLock, DoesNotLeanToAnotherWhileTheLastOwnerMayBeOnItsWay) {
    take(lock_, first_threshold + 1);
    // This thread has not been here since: for all that the lock knows it still tries.
    in_another_thread([&] {
        take(lock_, 4 * first_threshold);
        EXPECT_EQ(fences_for_another(), 0);
    });
    take(lock_);
    in_another_thread([&] {
        take(lock_, 8 * first_threshold);
        EXPECT_EQ(fences_for_another(), 1);
    });
}

TEST_F(BiasedLock, LeansToAnotherWhenTheLastOwnerHasEnded) {
    in_another_thread([&] { take(lock_, first_threshold + 1); });
    watched_platform::time += watched_platform::worthwhile;
    take(lock_, first_threshold + 1);
    EXPECT_EQ(watched_platform::fences, 1);
    EXPECT_EQ(fences_for_another(), 1);
}

// A thread of the child that comes by would else be told that the owner, whom the kernel knows by
// another number there, has ended.
TEST_F(BiasedLock, InAForkedChildTheForkingThreadIsAnother) {
    take(lock_, first_threshold + 1);
    const unsigned own = thread_number();
    const pid_t child = ::fork();
    if (child == 0) {
        if (thread_number() == own) ::_exit(1);
        take(lock_);
        ::_exit(watched_platform::fences == 1 ? 0 : 2);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(thread_number(), own);
}

TEST_F(BiasedLock, ANumberThatSeveralThreadsMayHaveGetsNoBias) {
    for (int i = 0; i < 4 * first_threshold; ++i) {
        lock_.lock_as(shared_number);
        lock_.unlock();
    }
    EXPECT_EQ(fences_for_another(), 0);
}

TEST_F(BiasedLock, WithoutTheKernelsFenceItLeansToNobody) {
    watched_platform::fence_works = false;
    take(lock_, 4 * first_threshold);
    EXPECT_EQ(fences_for_another(), 0);
}

TEST_F(BiasedLock, LeftOutItLeansToWhoeverComes) {
    lock_.disable();
    watched_platform::fence_works = false;
    for (int round = 0; round < 3; ++round) {
        take(lock_);
        EXPECT_TRUE(lock_.is_biased_to(thread_number()));
        in_another_thread([&] {
            take(lock_);
            EXPECT_TRUE(lock_.is_biased_to(thread_number()));
        });
    }
    EXPECT_EQ(watched_platform::fences, 0);
}

// Not atomic: a lock that lets two in at once loses counts, and TSan reports it.
TEST_F(BiasedLock, ExcludesAndPublishes) {
    constexpr int rounds = 200;
    constexpr int threads = 4;
    biased_lock lock;
    std::array<long, 8> counts = {};
    const auto count = [&](long by) {
        const lock_scope hold(lock);
        for (long& each : counts)
            each += by;
    };
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
        all.emplace_back([&, i] {
            // The first takes it in long runs, the others now and then.
            const int run = i == 0 ? 1000 : 10;
            for (int round = 0; round < rounds; ++round) {
                for (int k = 0; k < run; ++k)
                    count(1);
                std::this_thread::yield();
            }
        });
    }
    for (std::thread& each : all)
        each.join();
    for (const long each : counts)
        EXPECT_EQ(each, rounds * (1000 + (threads - 1) * 10));
}

// From now on the process gets EPERM for membarrier.
bool forbid_membarrier() {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
               0;
}

// Ends the program: with 0 if all is well.
[[noreturn]] void take_back_in_a_sandbox() {
    biased_lock lock;
    take(lock, first_threshold + 1);
    if (!forbid_membarrier()) ::_exit(3);
    std::atomic<bool> entered{false};
    lock.lock();
    std::thread other([&] {
        lock.lock();
        entered = true;
        lock.unlock();
    });
    while (bias_platform::has_heavy_fence())  // until it was refused
        std::this_thread::yield();
    if (entered) ::_exit(1);
    lock.unlock();
    other.join();
    take(lock, 4 * first_threshold);
    in_another_thread([&] { take(lock); });
    ::_exit(entered ? 0 : 2);
}

TEST_F(BiasedLock, AFenceThatASandboxRefusesIsWaitedFor) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (in_child([] { return forbid_membarrier() ? 0 : 1; }) != 0) GTEST_SKIP() << "no seccomp";
    EXPECT_EXIT(take_back_in_a_sandbox(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verge::detail
