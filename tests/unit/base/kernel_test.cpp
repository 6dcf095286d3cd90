#include <verge/base/clock.hpp>
#include <verge/base/detail/fast_clock.hpp>
#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/os_thread.hpp>

#include <cerrno>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

namespace verge::detail {
namespace {

using namespace std::chrono_literals;

// A clock that stands still, and no thread to be had.
struct frozen_kernel : kernel {
    int clock_gettime(clockid_t, timespec* now) noexcept override {
        *now = {.tv_sec = 5, .tv_nsec = 7};
        return 0;
    }
    int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                       void*) noexcept override {
        return EAGAIN;
    }
};

void* set_flag(void* flag) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    *static_cast<bool*>(flag) = ::sigismember(&blocked, SIGUSR1) == 1;
    return nullptr;
}

TEST(Kernel, IsTheRealOneUnlessReplaced) {
    EXPECT_EQ(kernel::replacement(), nullptr);
    EXPECT_EQ(os::close(-1), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST(Kernel, AReplacementGetsEveryClockRead) {
    const time_point before = steady_source{}.now();
    {
        frozen_kernel frozen;
        const replaced_kernel scope(frozen);
        EXPECT_EQ(steady_source{}.now(), time_point(5s + 7ns));
    }
    EXPECT_GE(steady_source{}.now(), before);
}

// Also those that are inlined and read the processor's counter, in a thread without an anchor.
TEST(Kernel, AReplacementGetsTheFastClocksReads) {
    frozen_kernel frozen;
    time_point read[2];
    os_thread other(
        [](void* to) -> void* {
            for (int i = 0; i < 2; ++i)
                static_cast<time_point*>(to)[i] = upper_now();
            return nullptr;
        },
        read, {.name = "reader"});
    other.join();
    EXPECT_NE(read[0], time_point(5s + 7ns));
    struct slow_start final : frozen_kernel {
        int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                           void* (*main)(void*), void* argument) noexcept override {
            return kernel::pthread_create(thread, attributes, main, argument);
        }
    } slow;
    const replaced_kernel scope(slow);
    other = os_thread(
        [](void* to) -> void* {
            for (int i = 0; i < 2; ++i)
                static_cast<time_point*>(to)[i] = upper_now();
            return nullptr;
        },
        read, {.name = "reader"});
    other.join();
    EXPECT_EQ(read[0], time_point(5s + 7ns));
    EXPECT_EQ(read[1], time_point(5s + 7ns));
}

TEST(Kernel, ScopesNest) {
    frozen_kernel outer;
    frozen_kernel inner;
    {
        const replaced_kernel first(outer);
        {
            const replaced_kernel second(inner);
            EXPECT_EQ(kernel::replacement(), &inner);
        }
        EXPECT_EQ(kernel::replacement(), &outer);
    }
    EXPECT_EQ(kernel::replacement(), nullptr);
}

TEST(OsThread, StartsWithSignalsBlocked) {
    bool blocked = false;
    os_thread thread(&set_flag, &blocked, {.name = "a name of more than 15 characters"});
    EXPECT_TRUE(thread.joinable());
    thread.join();
    EXPECT_TRUE(blocked);
    sigset_t own;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
    EXPECT_EQ(::sigismember(&own, SIGUSR1), 0) << "the caller's mask is as it was";
}

TEST(OsThread, SaysWhichCallWasRefused) {
    frozen_kernel frozen;
    const replaced_kernel scope(frozen);
    bool flag = false;
    try {
        os_thread thread(&set_flag, &flag, {.name = "none"});
        FAIL() << "it started";
    } catch (const std::system_error& refused) {
        EXPECT_EQ(refused.code().value(), EAGAIN);
        EXPECT_NE(std::string(refused.what()).find("pthread_create"), std::string::npos);
    }
}

// Two threads take turns: a notify that were lost would leave both asleep.
TEST(ThreadCondition, LosesNoWakeUp) {
    struct shared {
        thread_mutex lock;
        thread_condition changed;
        int turn = 0;
    } both;
    constexpr int turns = 2000;
    os_thread other(
        [](void* of) -> void* {
            auto& own = *static_cast<shared*>(of);
            std::unique_lock hold(own.lock);
            for (int i = 0; i < turns; ++i) {
                own.changed.wait(hold, [&] { return own.turn % 2 == 1; });
                ++own.turn;
                own.changed.notify_one();
            }
            return nullptr;
        },
        &both, {.name = "other"});
    {
        std::unique_lock hold(both.lock);
        for (int i = 0; i < turns; ++i) {
            both.changed.wait(hold, [&] { return both.turn % 2 == 0; });
            ++both.turn;
            both.changed.notify_all();
        }
    }
    other.join();
    EXPECT_EQ(both.turn, 2 * turns);
}

TEST(ThreadCondition, ReturnsAtItsDeadlineAndNotBefore) {
    thread_mutex lock;
    thread_condition changed;
    std::unique_lock hold(lock);
    const time_point deadline = steady_source{}.now() + 2ms;
    EXPECT_FALSE(changed.wait_until(hold, deadline, [] { return false; }));
    EXPECT_GE(steady_source{}.now(), deadline);
    EXPECT_TRUE(hold.owns_lock());
}

}  // namespace
}  // namespace verge::detail
