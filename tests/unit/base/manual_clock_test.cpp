#include <verge/base/manual_clock.hpp>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

using namespace std::chrono_literals;

constexpr time_point at(duration d) {
    return time_point(d);
}

TEST(ManualClock, MovesOnlyWhenTold) {
    manual_clock clock;
    EXPECT_EQ(clock.now(), at(0ns));
    EXPECT_EQ(clock.now(), at(0ns));
    clock.advance(3s);
    clock.advance(4ns);
    EXPECT_EQ(clock.now(), at(3s + 4ns));
    clock.advance_to(at(5s));
    EXPECT_EQ(clock.now(), at(5s));
}

TEST(ManualClock, StartsWhereItIsTold) {
    EXPECT_EQ(manual_clock(at(7s)).now(), at(7s));
    EXPECT_EQ(manual_clock(at(-7s)).now(), at(-7s));
    EXPECT_EQ(manual_clock(time_point::min()).now(), time_point::min());
}

TEST(ManualClock, NeverGoesBackwards) {
    manual_clock clock(at(10s));
    clock.advance(-1s);
    clock.advance(duration::min());
    clock.advance(std::chrono::hours::min());
    clock.advance(0s);
    clock.advance_to(at(9s));
    clock.advance_to(time_point::min());
    EXPECT_EQ(clock.now(), at(10s));
}

TEST(ManualClock, StopsAtTheLastTime) {
    manual_clock clock(at(1s));
    clock.advance(duration::max());
    EXPECT_EQ(clock.now(), last_time);
    clock.advance(1ns);
    clock.advance_to(never);
    EXPECT_EQ(clock.now(), last_time);
    EXPECT_EQ(manual_clock(never).now(), last_time);

    for (const time_point start : {time_point::min(), at(-1s), at(0s)}) {
        manual_clock other(start);
        other.advance(std::chrono::hours::max());
        EXPECT_EQ(other.now(), last_time) << "nanoseconds cannot hold it";
    }
}

TEST(ManualClock, SleepingUntilAPastTimeReturnsAtOnce) {
    manual_clock clock(at(10s));
    clock.sleep_until(at(10s));
    clock.sleep_until(at(9s));
    clock.sleep_until(time_point::min());
    EXPECT_EQ(clock.waiters(), 0u);
}

TEST(ManualClock, AdvancingWakesExactlyWhatIsDue) {
    manual_clock clock;
    std::vector<std::thread> sleepers;
    std::atomic<int> awake{0};
    for (const duration deadline : {30s, 10s, 20s, 20s, 30s}) {
        sleepers.emplace_back([&, deadline] {
            clock.sleep_until(at(deadline));
            EXPECT_GE(clock.now(), at(deadline));
            awake.fetch_add(1);
        });
        clock.wait_for_waiters(sleepers.size());  // so that the list has this order
    }
    clock.advance(10s - 1ns);
    EXPECT_EQ(clock.waiters(), 5u);
    clock.advance(1ns);
    EXPECT_EQ(clock.waiters(), 4u);
    sleepers[1].join();
    clock.advance_to(at(29s));
    EXPECT_EQ(clock.waiters(), 2u);
    sleepers[2].join();
    sleepers[3].join();
    EXPECT_EQ(awake.load(), 3);
    clock.advance(1s);
    EXPECT_EQ(clock.waiters(), 0u);
    sleepers[0].join();
    sleepers[4].join();
}

TEST(ManualClock, ADayPassesInNoTime) {
    manual_clock clock;
    std::thread sleeper([&] { clock.sleep_until(at(24h)); });
    clock.wait_for_waiters(1);
    clock.advance(24h);
    sleeper.join();
    EXPECT_EQ(clock.now(), at(24h));
}

TEST(ManualClock, ASleeperSeesWhatWasWrittenBeforeTheAdvance) {
    manual_clock clock;
    int message = 0;  // not atomic: the clock orders it, and TSan says so
    std::thread sleeper([&] {
        clock.sleep_until(at(1s));
        EXPECT_EQ(message, 42);
    });
    clock.wait_for_waiters(1);
    message = 42;
    clock.advance(1s);
    sleeper.join();
}

TEST(ManualClock, ALateSleeperSeesWhatWasWrittenBeforeTheAdvance) {
    manual_clock clock;
    int message = 0;
    std::thread sleeper([&] {
        while (clock.now() < at(1s))
            std::this_thread::yield();  // relaxed: orders nothing
        clock.sleep_until(at(1s));
        EXPECT_EQ(message, 42);
    });
    message = 42;
    clock.advance(1s);
    sleeper.join();
}

TEST(ManualClock, WaitForWaitersReturnsAtOnceIfThereAreEnough) {
    manual_clock clock;
    clock.wait_for_waiters(0);
    std::thread sleeper([&] { clock.sleep_until(at(1s)); });
    clock.wait_for_waiters(1);
    clock.wait_for_waiters(1);
    clock.wait_for_waiters(0);
    EXPECT_EQ(clock.waiters(), 1u);
    clock.advance(1s);
    sleeper.join();
}

// ---- park
// ----------------------------------------------------------------------------------------

TEST(ManualClock, ParkReturnsFalseWhenTheClockReachesTheDeadline) {
    manual_clock clock;
    parker parker;
    bool unparked = true;
    std::thread owner([&] { unparked = clock.park(parker, at(1s)); });
    clock.wait_for_waiters(1);
    clock.advance(1s);
    owner.join();
    EXPECT_FALSE(unparked);
    EXPECT_FALSE(clock.park(parker, at(1s)));  // and no wake-up was stored
}

TEST(ManualClock, ParkReturnsTrueWhenUnparked) {
    manual_clock clock;
    parker parker;
    bool unparked = false;
    std::thread owner([&] { unparked = clock.park(parker, at(1s)); });
    clock.wait_for_waiters(1);
    parker.unpark();
    owner.join();
    EXPECT_TRUE(unparked);
    EXPECT_EQ(clock.waiters(), 0u);
    EXPECT_EQ(clock.now(), at(0s));
    clock.advance(1s);  // finds nobody
}

TEST(ManualClock, ParkConsumesAStoredWakeUpAtOnce) {
    manual_clock clock;
    parker parker;
    parker.unpark();
    EXPECT_TRUE(clock.park(parker, never));
    parker.unpark();
    EXPECT_TRUE(clock.park(parker, at(0s)));  // also when the deadline has passed
    EXPECT_FALSE(clock.park(parker, at(0s)));
}

TEST(ManualClock, ParkUntilNeverIsEndedByNoAdvance) {
    manual_clock clock;
    parker parker;
    bool unparked = false;
    std::thread owner([&] { unparked = clock.park(parker, never); });
    clock.wait_for_waiters(1);
    clock.advance(duration::max());
    clock.advance_to(never);
    EXPECT_EQ(clock.waiters(), 1u);
    EXPECT_TRUE(parker.is_parked());
    parker.unpark();
    owner.join();
    EXPECT_TRUE(unparked);
}

TEST(ManualClock, AnUnparkFromTheMiddleLeavesTheOthersAsleep) {
    manual_clock clock;
    parker parkers[3];
    std::vector<std::thread> owners;
    for (parker& parker : parkers) {
        owners.emplace_back([&] { static_cast<void>(clock.park(parker, at(1s))); });
        clock.wait_for_waiters(owners.size());
    }
    parkers[1].unpark();
    owners[1].join();
    EXPECT_EQ(clock.waiters(), 2u);
    EXPECT_TRUE(parkers[0].is_parked());
    EXPECT_TRUE(parkers[2].is_parked());
    clock.advance(1s);
    owners[0].join();
    owners[2].join();
}

TEST(ManualClock, AWakeUpThatRacesTheDeadlineIsKept) {
    constexpr int rounds = 2000;
    manual_clock clock;
    parker parker;
    std::atomic<int> advances{0};
    std::atomic<int> unparks{0};
    std::thread advancer([&] {
        for (int round = 1; round <= rounds; ++round) {
            while (advances.load() < round)
                std::this_thread::yield();
            clock.advance(1s);
        }
    });
    std::thread waker([&] {
        for (int round = 1; round <= rounds; ++round) {
            while (unparks.load() < round)
                std::this_thread::yield();
            parker.unpark();
        }
    });
    for (int round = 1; round <= rounds; ++round) {
        const time_point deadline = at(round * 1s);
        advances = round;
        unparks = round;
        if (!clock.park(parker, deadline)) {
            EXPECT_GE(clock.now(), deadline);
            ASSERT_TRUE(parker.park(never));  // still to come, or stored: never lost
        }
        clock.sleep_until(deadline);  // so that no round overtakes the clock
        ASSERT_FALSE(clock.park(parker, deadline));
    }
    advancer.join();
    waker.join();
}

TEST(ManualClock, ManySleepersAndAdvancersAllGetThere) {
    constexpr int sleepers = 6;
    constexpr int steps = 300;
    manual_clock clock;
    std::atomic<int> running{sleepers};
    std::vector<std::thread> threads;
    for (int i = 0; i < sleepers; ++i) {
        threads.emplace_back([&, i] {
            for (int step = 1; step <= steps; ++step) {
                const time_point deadline = at((step + i) * 1ms);
                clock.sleep_until(deadline);
                ASSERT_GE(clock.now(), deadline);
            }
            running.fetch_sub(1);
        });
    }
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            while (running.load() > 0) {
                clock.advance(1ms);
                std::this_thread::yield();
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(clock.waiters(), 0u);
}

// ---- destruction
// ---------------------------------------------------------------------------------

TEST(ManualClock, TheDestructorWaitsForThreadsOnTheirWayOut) {
    for (int round = 0; round < 200; ++round) {
        auto clock = std::make_unique<manual_clock>();
        parker parker;
        std::thread due([&c = *clock] { c.sleep_until(at(1s)); });
        std::thread unparked([&c = *clock, &parker] { EXPECT_TRUE(c.park(parker, never)); });
        clock->wait_for_waiters(2);
        clock->advance(1s);
        parker.unpark();
        clock.reset();  // ASan and TSan report a thread that still uses it
        due.join();
        unparked.join();
    }
}

#ifndef NDEBUG
TEST(ManualClockDeathTest, DestructionUnderASleeperIsAMistake) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            auto clock = std::make_unique<manual_clock>();
            std::thread sleeper([&c = *clock] { c.sleep_until(at(1s)); });
            clock->wait_for_waiters(1);
            clock.reset();
        },
        "a manual_clock is destroyed under a sleeper");
}
#endif

}  // namespace
}  // namespace verge
