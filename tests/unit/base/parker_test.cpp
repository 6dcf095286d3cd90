#include "support/build.hpp"
#include <verge/base/detail/annotate.hpp>
#include <verge/base/parker.hpp>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <pthread.h>
#include <signal.h>

#include <gtest/gtest.h>

namespace verge {
namespace {

using namespace std::chrono_literals;

constexpr time_point past{};  // the machine has been up for longer

time_point now() {
    return steady_source{}.now();
}

TEST(Parker, AnUnparkBeforeParkEndsItAtOnce) {
    parker parker;
    parker.unpark();
    EXPECT_TRUE(parker.park(never));
}

TEST(Parker, WakeUpsDoNotAddUp) {
    parker parker;
    for (int i = 0; i < 3; ++i)
        parker.unpark();
    EXPECT_TRUE(parker.park(never));
    EXPECT_FALSE(parker.park(past));
}

TEST(Parker, ADeadlineInThePastEndsItAtOnce) {
    parker parker;
    EXPECT_FALSE(parker.park(past));
    EXPECT_FALSE(parker.park(now()));
    EXPECT_FALSE(parker.park(now() - 1h));
}

TEST(Parker, ADeadlineBeforeTheEpochEndsItAtOnce) {
    parker parker;
    EXPECT_FALSE(parker.park(time_point(-1ns)));
    EXPECT_FALSE(parker.park(time_point(-1s)));
    EXPECT_FALSE(parker.park(time_point(-1500ms)));
    EXPECT_FALSE(parker.park(time_point::min()));
}

TEST(Parker, AStoredWakeUpIsReportedThoughTheDeadlineHasPassed) {
    parker parker;
    parker.unpark();
    EXPECT_TRUE(parker.park(time_point::min()));
    EXPECT_FALSE(parker.park(time_point::min()));
}

TEST(Parker, NeverReturnsBeforeItsDeadline) {
    parker parker;
    for (int i = 0; i < 200; ++i) {
        const time_point deadline = now() + i * 1us;
        EXPECT_FALSE(parker.park(deadline));
        EXPECT_GE(now(), deadline);
    }
}

// An owner thread that parks once, on `deadline`.  Kept apart so that each test says what it does
// to a sleeping owner.
class sleeping_owner {
public:
    explicit sleeping_owner(time_point deadline)
        : thread_([this, deadline] {
              woken_ = parker_.park(deadline);
              returned_at_ = now();
              has_returned_.store(true);
          }) {
        while (!parker_.is_parked() && !has_returned_.load())
            std::this_thread::yield();
    }
    bool has_returned() const { return has_returned_.load(); }
    void signal(int number) { pthread_kill(thread_.native_handle(), number); }
    void unpark() { parker_.unpark(); }
    bool join() {
        thread_.join();
        return woken_;
    }
    time_point returned_at() const { return returned_at_; }

private:
    parker parker_;
    bool woken_ = false;
    time_point returned_at_{};
    std::atomic<bool> has_returned_{false};
    std::thread thread_;
};

TEST(Parker, AnUnparkWakesASleeper) {
    sleeping_owner owner(never);
    owner.unpark();
    EXPECT_TRUE(owner.join());
}

TEST(Parker, AnUnparkWakesASleeperBeforeItsDeadline) {
    const time_point deadline = now() + 1h;
    sleeping_owner owner(deadline);
    owner.unpark();
    EXPECT_TRUE(owner.join());
    EXPECT_LT(owner.returned_at(), deadline);
}

TEST(Parker, TheLastTimeIsADeadlineLikeAnyOther) {
    sleeping_owner owner(last_time);
    owner.unpark();
    EXPECT_TRUE(owner.join());
}

std::atomic<int> signals_handled{0};

// A handler without SA_RESTART: system calls that it interrupts return EINTR.
class interrupting_handler {
public:
    interrupting_handler() {
        struct sigaction action {};
        action.sa_handler = [](int) { signals_handled.fetch_add(1); };
        sigaction(SIGUSR1, &action, &before_);
        signals_handled = 0;
    }
    ~interrupting_handler() { sigaction(SIGUSR1, &before_, nullptr); }
    interrupting_handler(const interrupting_handler&) = delete;
    interrupting_handler& operator=(const interrupting_handler&) = delete;

private:
    struct sigaction before_ {};
};

// TSan holds back a signal that comes between two system calls until the thread calls one of its
// interceptors, which a thread that sleeps in a futex does not.
#if !VERGE_HAS_TSAN
// Each one while it sleeps, which none of them ends.
void send_one_by_one(sleeping_owner& owner) {
    for (int sent = 1; sent <= 1000; ++sent) {
        owner.signal(SIGUSR1);
        while (signals_handled.load() < sent)
            std::this_thread::yield();
        ASSERT_FALSE(owner.has_returned());
    }
}

TEST(Parker, ASignalStormDoesNotEndAWaitForNever) {
    const interrupting_handler handler;
    sleeping_owner owner(never);
    send_one_by_one(owner);
    owner.unpark();
    EXPECT_TRUE(owner.join());
}

TEST(Parker, ASignalStormDoesNotEndAWaitForADeadline) {
    const interrupting_handler handler;
    sleeping_owner owner(now() + 1h);
    send_one_by_one(owner);
    owner.unpark();
    EXPECT_TRUE(owner.join());
}
#endif

TEST(Parker, ASignalStormDoesNotShortenAWait) {
    const interrupting_handler handler;
    const time_point deadline = now() + 30ms;
    sleeping_owner owner(deadline);
    for (int sent = 1; !owner.has_returned(); ++sent) {
        owner.signal(SIGUSR1);
        while (signals_handled.load() < sent && !owner.has_returned())
            std::this_thread::yield();
    }
    EXPECT_FALSE(owner.join());
    EXPECT_GE(owner.returned_at(), deadline);
}

TEST(Parker, ManyWakersLoseNoWakeUp) {
    constexpr int wakers = 4;
    constexpr int rounds = 5000;
    parker parker;
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < wakers; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < rounds; ++round) {
                done.fetch_add(1, std::memory_order_relaxed);
                parker.unpark();
            }
        });
    }
    // Ends only if the wake-up after the last increment was not lost.
    while (done.load(std::memory_order_relaxed) < wakers * rounds) {
        EXPECT_TRUE(parker.park(never));
    }
    for (std::thread& thread : threads)
        thread.join();
}

TEST(Parker, TwoOwnersHandABallBackAndForth) {
    constexpr int rounds = 5000;
    parker ping;
    parker pong;
    int ball = 0;  // not atomic: the parkers order it, and TSan says so
    std::thread other([&] {
        for (int round = 0; round < rounds; ++round) {
            ASSERT_TRUE(pong.park(never));
            ++ball;
            ping.unpark();
        }
    });
    for (int round = 0; round < rounds; ++round) {
        ++ball;
        pong.unpark();
        EXPECT_TRUE(ping.park(never));
        EXPECT_EQ(ball, 2 * (round + 1));
    }
    other.join();
}

TEST(Parker, LosesNoWakeUpToTheDeadline) {
    constexpr int rounds = 2000;
    parker parker;
    std::atomic<int> turn{0};
    std::thread waker([&] {
        for (int round = 1; round <= rounds; ++round) {
            while (turn.load() < round)
                std::this_thread::yield();
            parker.unpark();
        }
    });
    for (int round = 1; round <= rounds; ++round) {
        turn = round;
        // Either this one reports the wake-up, or the next finds it.
        const bool reported = parker.park(now() + (round % 50) * 1us);
        ASSERT_TRUE(reported || parker.park(never));
        ASSERT_FALSE(parker.park(past));
    }
    waker.join();
}

// ---- on a scripted platform: what the kernel may do, one thing at a time
// ---------------------------

struct scripted_platform {
    template <class T>
    using atomic = std::atomic<T>;
    static inline std::function<void(time_point)> on_wait;
    static inline time_point time;
    static inline int waits;
    static inline int wakes;

    static void wait(std::atomic<std::uint32_t>&, std::uint32_t, time_point deadline) {
        ++waits;
        if (on_wait) on_wait(deadline);
    }
    static void wake_one(std::atomic<std::uint32_t>&) { ++wakes; }
    static time_point now() { return time; }
};

class ScriptedParker : public testing::Test {
protected:
    using script = scripted_platform;
    ScriptedParker() {
        script::on_wait = nullptr;
        script::time = time_point{};
        script::waits = script::wakes = 0;
    }
    basic_parker<script> parker;
};

TEST_F(ScriptedParker, SleepsThroughSpuriousReturns) {
    script::on_wait = [](time_point) {
        if (script::waits == 100) script::time = time_point(10ns);
    };
    EXPECT_FALSE(parker.park(time_point(10ns)));
    EXPECT_EQ(script::waits, 100);
}

TEST_F(ScriptedParker, AsksTheKernelForTheSameAbsoluteDeadlineEachTime) {
    std::vector<time_point> asked;
    script::on_wait = [&](time_point deadline) {
        asked.push_back(deadline);
        script::time += 4ns;
    };
    EXPECT_FALSE(parker.park(time_point(10ns)));
    EXPECT_EQ(asked, std::vector<time_point>(3, time_point(10ns)));
}

TEST_F(ScriptedParker, ReturnsAtTheDeadlineAndNotOneNanosecondBefore) {
    script::time = time_point(9ns);
    script::on_wait = [](time_point) {
        if (script::waits == 2) script::time = time_point(10ns);
    };
    EXPECT_FALSE(parker.park(time_point(10ns)));
    EXPECT_EQ(script::waits, 2);
}

TEST_F(ScriptedParker, ReportsAWakeUpThatComesWithTheDeadline) {
    script::on_wait = [&](time_point) {
        script::time = time_point(10ns);
        parker.unpark();
    };
    EXPECT_TRUE(parker.park(time_point(10ns)));
    EXPECT_EQ(script::wakes, 1);
}

TEST_F(ScriptedParker, CallsTheKernelOnlyToWakeASleeper) {
    parker.unpark();
    parker.unpark();
    EXPECT_EQ(script::wakes, 0);
    EXPECT_TRUE(parker.park(never));
    EXPECT_EQ(script::waits, 0);
    script::on_wait = [&](time_point) {
        parker.unpark();
        parker.unpark();
    };
    EXPECT_TRUE(parker.park(never));
    EXPECT_EQ(script::waits, 1);
    EXPECT_EQ(script::wakes, 1);
}

TEST_F(ScriptedParker, AClockEndsASleepWithoutStoringAWakeUp) {
    ASSERT_TRUE(parker.enter());
    EXPECT_TRUE(parker.is_parked());
    script::on_wait = [&](time_point deadline) {
        EXPECT_EQ(deadline, never);
        if (script::waits == 3) parker.expire();
    };
    parker.sleep();
    EXPECT_EQ(script::waits, 3);
    EXPECT_EQ(script::wakes, 1);
    EXPECT_FALSE(parker.is_parked());
    EXPECT_FALSE(parker.leave());
}

TEST_F(ScriptedParker, AClockHidesNoWakeUp) {
    ASSERT_TRUE(parker.enter());
    parker.unpark();
    parker.expire();
    parker.sleep();
    EXPECT_TRUE(parker.leave());

    ASSERT_TRUE(parker.enter());
    parker.expire();
    parker.unpark();
    parker.sleep();
    EXPECT_TRUE(parker.leave());
    EXPECT_EQ(script::waits, 0);
    EXPECT_EQ(script::wakes, 2);
}

TEST_F(ScriptedParker, AClockLeavesAnAwakeOwnerAlone) {
    parker.expire();
    EXPECT_TRUE(parker.enter());
    EXPECT_FALSE(parker.leave());
    parker.unpark();
    parker.expire();
    EXPECT_FALSE(parker.enter());
    EXPECT_EQ(script::wakes, 0);
}

}  // namespace
}  // namespace verge
