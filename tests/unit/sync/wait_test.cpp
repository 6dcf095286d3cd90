#include "unit/driver/timer_thread_fixture.hpp"
#include "unit/fibers/fiber_fixture.hpp"
#include <verge/driver/timer_thread.hpp>

#include <array>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

namespace verge::fibers {
namespace {

// Two parties take turns: each waits for the word to become its own.
void take_turns(const word_type& word, word_type& mutable_word, std::uint32_t rounds,
                std::uint32_t mine) {
    for (std::uint32_t turn = mine; turn < rounds; turn += 2) {
        const time_point limit = now() + patience;
        for (std::uint32_t seen = word; seen != turn; seen = word) {
            ASSERT_NE(wait(word, seen, limit), wait_result::timed_out) << "at turn " << turn;
        }
        mutable_word = turn + 1;
        static_cast<void>(notify_one(word));
    }
}

constexpr std::uint32_t turns = has_sanitizer ? 20'000 : 100'000;

TEST(Wait, LosesNoWakeUp) {
    scheduler fibers(workers(2));
    word_type word{0};
    fiber<> even = fibers.spawn([&] { take_turns(word, word, turns, 0); });
    fiber<> odd = fibers.spawn([&] { take_turns(word, word, turns, 1); });
    even.join();
    odd.join();
    EXPECT_EQ(word, turns);
}

TEST(Wait, LosesNoWakeUpBetweenAThreadAndAFiber) {
    scheduler fibers(workers(1));
    word_type word{0};
    fiber<> even = fibers.spawn([&] { take_turns(word, word, turns / 4, 0); });
    take_turns(word, word, turns / 4, 1);
    even.join();
    EXPECT_EQ(word, turns / 4);
}

TEST(Wait, LosesNoWakeUpBetweenThreads) {
    word_type word{0};
    std::thread even([&] { take_turns(word, word, turns / 4, 0); });
    take_turns(word, word, turns / 4, 1);
    even.join();
    EXPECT_EQ(word, turns / 4);
}

TEST(Wait, LosesNoWakeUpOfANativeFiber) {
    scheduler fibers(workers(2));
    word_type word{0};
    fiber<> even =
        fibers.spawn([&] { take_turns(word, word, turns / 4, 0); }, {.stack = stack_kind::native});
    fiber<> odd = fibers.spawn([&] { take_turns(word, word, turns / 4, 1); });
    even.join();
    odd.join();
    EXPECT_EQ(word, turns / 4);
}

TEST(Wait, DoesNotWaitForAWordThatHasChanged) {
    scheduler fibers(workers(1));
    const word_type word{1};
    EXPECT_EQ(wait(word, 0), wait_result::changed);
    EXPECT_EQ(wait_uninterrupted(word, 0), wait_result::changed);
    EXPECT_EQ(fibers.spawn([&] { return wait(word, 0); }).join(), wait_result::changed);
    EXPECT_EQ(notify_all(word), 0U) << "nobody is left behind";
}

TEST(Wait, ReturnsAtItsDeadline) {
    scheduler fibers(workers(1));
    const word_type word{0};
    const auto late = [&] {
        for (const duration d : {duration(0), duration(1), duration(1ms), duration(5ms)}) {
            const time_point deadline = now() + d;
            EXPECT_EQ(wait(word, 0, deadline), wait_result::timed_out);
            EXPECT_GE(now(), deadline);
        }
        EXPECT_EQ(wait(word, 0, time_point{}), wait_result::timed_out);
        EXPECT_EQ(wait(word, 0, time_point::min()), wait_result::timed_out);
    };
    late();
    fibers.spawn(late).join();
    fibers.spawn(late, {.stack = stack_kind::native}).join();
    EXPECT_EQ(notify_all(word), 0U) << "nobody is left behind";
}

TEST(Wait, AnInterruptEndsAWait) {
    scheduler fibers(workers(1));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        const word_type word{0};
        // Whether the interrupt comes before or during the wait, the result is the same.
        const fiber<wait_result> f = fibers.spawn([&] { return wait(word, 0); }, {.stack = kind});
        f.interrupt();
        f.wait();
        EXPECT_EQ(notify_all(word), 0U) << "nobody is left behind";
    }
}

TEST(Wait, AnInterruptEndsAWaitThatHasBegun) {
    scheduler fibers(workers(2));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        word_type word{0};
        tally answers;
        wait_result first{};
        wait_result second{};
        fiber<> f = fibers.spawn(
            [&] {
                first = wait(word, 0);
                answers.add();
                second = wait(word, 0, now() + 1ms);
                answers.add();
            },
            {.stack = kind});
        // Moving it to where it stands says whether it waits.
        const word_type elsewhere{0};
        ASSERT_TRUE(eventually([&] { return requeue(word, 0, elsewhere, 0, 9) == 1; }));
        f.interrupt();
        f.join();
        EXPECT_EQ(first, wait_result::interrupted);
        EXPECT_EQ(second, wait_result::timed_out) << "the interrupt is consumed";
        EXPECT_EQ(notify_all(word) + notify_all(elsewhere), 0U);
    }
}

TEST(Wait, AnInterruptBeforeAWaitEndsIt) {
    scheduler fibers(workers(2));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        door interrupted;
        const word_type word{0};
        fiber<std::pair<wait_result, wait_result>> f = fibers.spawn(
            [&] {
                EXPECT_TRUE(interrupted.wait()) << "this one it does not end";
                const wait_result first = wait(word, 0);
                return std::pair(first, wait(word, 0, now() + 1ms));
            },
            {.stack = kind});
        f.interrupt();
        interrupted.open();
        EXPECT_EQ(f.join(), std::pair(wait_result::interrupted, wait_result::timed_out));
    }
}

TEST(Wait, AnInterruptDoesNotEndAnUninterruptedWait) {
    scheduler fibers(workers(1));
    word_type word{0};
    fiber<std::pair<wait_result, wait_result>> f = fibers.spawn([&] {
        const wait_result first = wait_uninterrupted(word, 0);
        return std::pair(first, wait(word, 0));
    });
    const word_type elsewhere{0};
    ASSERT_TRUE(eventually([&] { return requeue(word, 0, elsewhere, 0, 1) == 1; }));
    f.interrupt();
    EXPECT_FALSE(f.wait_until(now()));
    EXPECT_EQ(notify_one(elsewhere), 1U);
    EXPECT_EQ(f.join(), std::pair(wait_result::notified, wait_result::interrupted));
}

TEST(Wait, AStopEndsAllWaits) {
    scheduler fibers(workers(1));
    const word_type word{0};
    fiber<> f = fibers.spawn([&] {
        const no_unwind here;
        EXPECT_EQ(wait(word, 0), wait_result::stopped);
        EXPECT_EQ(wait(word, 0), wait_result::stopped);
        EXPECT_EQ(wait(word, 0, now() + 1h), wait_result::stopped);
        EXPECT_EQ(wait_uninterrupted(word, 0, now() + 1ms), wait_result::timed_out);
    });
    f.request_stop();
    f.join();
}

TEST(Wait, NotifiesInOrder) {
    scheduler fibers(workers(1));
    const word_type word{0};
    std::vector<int> order;
    std::vector<fiber<>> all;
    // With one worker they come to wait, and to run again, in the order of a queue.
    fibers
        .spawn([&] {
            for (int i = 0; i < 10; ++i) {
                all.push_back(fibers.spawn([&order, &word, i] {
                    EXPECT_EQ(wait(word, 0), wait_result::notified);
                    order.push_back(i);
                }));
            }
            this_fiber::yield();
            EXPECT_EQ(notify_one(word), 1U);
            this_fiber::yield();
            EXPECT_EQ(order, std::vector{0}) << "one, and the first";
            EXPECT_EQ(notify_n(word, 3), 3U);
            this_fiber::yield();
            EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
            EXPECT_EQ(notify_n(word, 0), 0U);
            EXPECT_EQ(notify_all(word), 6U);
            EXPECT_EQ(notify_all(word), 0U);
        })
        .join();
    for (fiber<>& f : all)
        f.join();
    std::vector<int> expected(10);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
}

TEST(Wait, ANotifyIsNotSpentOnAWaiterThatHasLeft) {
    scheduler fibers(workers(1));
    const word_type word{0};
    fibers
        .spawn([&] {
            fiber<wait_result> first = fibers.spawn([&] { return wait(word, 0); });
            fiber<wait_result> second = fibers.spawn([&] { return wait(word, 0); });
            this_fiber::yield();
            first.interrupt();  // it is claimed, and still linked
            EXPECT_EQ(notify_one(word), 1U);
            EXPECT_EQ(first.join(), wait_result::interrupted);
            EXPECT_EQ(second.join(), wait_result::notified);
        })
        .join();
}

TEST(Wait, NotifyAllWakesHundreds) {
    scheduler fibers(workers(2));
    word_type word{0};
    constexpr std::size_t count = 500;
    std::atomic<std::size_t> woken{0};
    std::vector<fiber<>> all;
    for (std::size_t i = 0; i < count; ++i) {
        all.push_back(fibers.spawn([&] {
            if (wait(word, 0, now() + patience) == wait_result::notified) ++woken;
        }));
    }
    const word_type elsewhere{0};
    std::size_t there = 0;
    ASSERT_TRUE(
        eventually([&] { return (there += requeue(word, 0, elsewhere, 0, count)) == count; }));
    EXPECT_EQ(notify_all(elsewhere), count);
    for (fiber<>& f : all)
        f.join();
    EXPECT_EQ(woken, count);
}

// Those who wait again at once are not woken again by the same call, which thus comes to an end.
TEST(Wait, NotifyAllEndsWhoeverComesBack) {
    scheduler fibers(workers(2));
    const word_type word{0};
    constexpr std::size_t count = 300;
    std::atomic<bool> over{false};
    std::vector<fiber<>> all;
    for (std::size_t i = 0; i < count; ++i) {
        all.push_back(fibers.spawn([&] {
            while (!over)
                static_cast<void>(wait(word, 0));
        }));
    }
    for (int round = 0; round < 200; ++round)
        ASSERT_LE(notify_all(word), count);
    over = true;
    for (const fiber<>& f : all) {
        f.interrupt();
        EXPECT_TRUE(f.wait_for(patience));
    }
}

TEST(Wait, RequeueWakesNobody) {
    scheduler fibers(workers(1));
    word_type from{0};
    const word_type to{0};
    tally returned;
    std::vector<fiber<>> all;
    for (int i = 0; i < 5; ++i) {
        all.push_back(fibers.spawn([&] {
            EXPECT_EQ(wait(from, 0), wait_result::notified);
            returned.add();
        }));
    }
    // A fiber that comes after them, on the only worker, finds them waiting.
    fibers
        .spawn([&] {
            EXPECT_EQ(requeue(from, 1, to, 1, 9), 0U) << "not the value expected";
            EXPECT_EQ(requeue(from, 0, to, 0, 2), 2U);
            this_fiber::yield();
            EXPECT_EQ(returned.count(), 0U);
            EXPECT_EQ(requeue(from, 0, to, 1, 1), 2U) << "one woken, one moved";
            this_fiber::yield();
            EXPECT_EQ(returned.count(), 1U);
            EXPECT_EQ(notify_all(from), 1U);
            EXPECT_EQ(notify_all(to), 3U);
            EXPECT_EQ(requeue(from, 0, from, 1, 1), 0U);
        })
        .join();
    for (fiber<>& f : all)
        f.join();
}

TEST(Wait, AWaiterThatWasMovedStillLeavesAtItsDeadlineOrInterrupt) {
    gate busy;
    timer_thread timers;
    timers.schedule_at(time_point{}, busy.wait_here());
    ASSERT_TRUE(busy.entered());  // so no deadline comes before both are moved
    scheduler fibers({.min_workers = 1, .max_workers = 1, .timers = &timers});
    word_type from{0};
    const std::array<word_type, 3> to{};
    fiber<wait_result> timed = fibers.spawn([&] { return wait(from, 0, now()); });
    fiber<wait_result> interrupted = fibers.spawn([&] { return wait(from, 0); });
    fibers
        .spawn([&] {
            EXPECT_EQ(requeue(from, 0, to[0], 0, 9), 2U);
            EXPECT_EQ(requeue(to[0], 0, to[1], 0, 9), 2U);
            EXPECT_EQ(requeue(to[1], 0, to[2], 0, 9), 2U);
        })
        .join();
    busy.open();
    interrupted.interrupt();
    EXPECT_EQ(timed.join(), wait_result::timed_out);
    EXPECT_EQ(interrupted.join(), wait_result::interrupted);
    EXPECT_EQ(notify_all(to[2]), 0U);
}

TEST(Wait, ThrowsIfTheTimerThreadTakesNoTimer) {
    timer_thread timers;
    timers.stop();
    scheduler fibers({.min_workers = 1, .max_workers = 1, .timers = &timers});
    const word_type word{0};
    fibers
        .spawn([&] {
            EXPECT_THROW(static_cast<void>(wait(word, 0, now() + 1h)), std::system_error);
            EXPECT_EQ(notify_all(word), 0U) << "it has left";
            EXPECT_THROW(this_fiber::sleep_for(1h), std::system_error);
            this_fiber::yield();
        })
        .join();
}

// A wait that is refused its timer has not taken a notification with it.
TEST(Wait, AWaitThatThrowsLosesNoWakeUp) {
    timer_thread timers;
    timers.stop();
    scheduler fibers({.min_workers = 1, .max_workers = 1, .timers = &timers});
    const word_type word{0};
    std::atomic<bool> over{false};
    std::size_t notified = 0;
    fiber<> waiter = fibers.spawn([&] {
        while (!over) {
            try {
                if (wait(word, 0, now() + 1h) == wait_result::notified) ++notified;
            } catch (const std::system_error&) {
            }
        }
    });
    std::size_t woken = 0;
    for (int i = 0; i < 300'000; ++i)
        woken += notify_one(word);
    over = true;
    waiter.join();
    EXPECT_EQ(notified, woken);
}

// An interrupt ends one wait, wherever it meets it; and what it leaves behind ends no other.
void one_interrupt_one_wait(stack_kind kind) {
    scheduler fibers(workers(1));
    const word_type word{0};
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> ended{0};
    std::atomic<std::uint64_t> for_nothing{0};
    const auto look_at = [&](wait_result result, wait_result otherwise) {
        if (result == wait_result::interrupted) {
            ++ended;
        } else if (result != otherwise) {
            ++for_nothing;
        }
    };
    fiber<> waiter = fibers.spawn(
        [&] {
            for (unsigned i = 1; !over; ++i) {
                // Waits that end as soon as they are announced, and real ones.
                look_at(wait(word, 1), wait_result::changed);
                if (i % 512 == 0) look_at(wait(word, 0, now() + 2us), wait_result::timed_out);
            }
        },
        {.stack = kind});
    constexpr std::uint64_t rounds = 40'000;
    const time_point enough = now() + 3s;  // on a machine that is busy
    std::uint64_t interrupts = 0;
    while (interrupts < rounds && now() < enough && ended <= interrupts) {
        waiter.interrupt();
        ++interrupts;
        ASSERT_TRUE(spin_until([&] { return ended >= interrupts; }));
    }
    over = true;
    waiter.join();
    EXPECT_EQ(ended, interrupts) << "each ends one wait";
    EXPECT_EQ(for_nothing, 0U) << "nobody has notified";
    EXPECT_EQ(notify_all(word), 0U);
}

TEST(Wait, AnInterruptEndsOneWait) {
    one_interrupt_one_wait(stack_kind::normal);
}

TEST(Wait, AnInterruptEndsOneWaitOfANativeFiber) {
    one_interrupt_one_wait(stack_kind::native);
}

}  // namespace
}  // namespace verge::fibers
