#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/condition_variable.hpp>

#include <deque>
#include <mutex>
#include <stdexcept>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(ConditionVariable);

static_assert(sizeof(condition_variable) == 16);
[[maybe_unused]] constinit condition_variable global_condition;  // needs no code at start

using unique_lock = std::unique_lock<mutex>;

bool is_held(mutex& m) {
    bool got = false;
    std::thread([&] {
        got = m.try_lock();
        if (got) m.unlock();
    }).join();
    return !got;
}

TYPED_TEST(ConditionVariable, NotifyOneWakesWhoHasWaitedLongest) {
    mutex m;
    condition_variable changed;
    std::atomic<int> last{-1};
    team<TypeParam> many;
    for (int i = 0; i < 3; ++i) {
        many.start_waiting(changed, static_cast<std::size_t>(i) + 1, [&, i] {
            unique_lock lock(m);
            EXPECT_EQ(changed.wait(lock), wait_result::notified);
            last.store(i);
        });
    }
    for (int i = 0; i < 3; ++i) {
        changed.notify_one();
        while (last.load() != i)
            TypeParam::yield();
        EXPECT_EQ(waiters_on(word_of(changed)), static_cast<std::size_t>(2 - i));
    }
}

TYPED_TEST(ConditionVariable, NotifyAllWakesAllOneAfterAnother) {
    mutex m;
    condition_variable changed;
    bool go = false;
    std::vector<int> order;
    team<TypeParam> many;
    for (int i = 0; i < 4; ++i) {
        many.start_waiting(changed, static_cast<std::size_t>(i) + 1, [&, i] {
            unique_lock lock(m);
            EXPECT_EQ(changed.wait(lock, [&] { return go; }), wait_result::notified);
            order.push_back(i);
        });
    }
    m.lock();
    go = true;
    changed.notify_all();
    EXPECT_EQ(waiters_on(word_of(changed)), 0U);
    EXPECT_EQ(waiters_on(word_of(m)), 4U) << "none has run: they wait for the mutex";
    m.unlock();
    many.join();
    EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TYPED_TEST(ConditionVariable, NotifyAllWithoutTheMutexWakesAllToo) {
    mutex m;
    condition_variable changed;
    bool go = false;
    team<TypeParam> many;
    for (std::size_t i = 0; i < 4; ++i) {
        many.start_waiting(changed, i + 1, [&] {
            unique_lock lock(m);
            EXPECT_EQ(changed.wait(lock, [&] { return go; }), wait_result::notified);
        });
    }
    m.lock();
    go = true;
    m.unlock();
    changed.notify_all();
}

// One that is woken while the mutex is free, and was not moved to it, leaves nothing for its unlock
// to look for.  One that was moved may not be the last: its unlock looks.
TYPED_TEST(ConditionVariable, OnlyWhoWasMovedLooksForOthersAtTheUnlock) {
    constexpr std::uint32_t held = 1;
    constexpr std::uint32_t contended = 2;
    for (const bool all : {false, true}) {
        mutex m;
        condition_variable changed;
        team<TypeParam> many;
        many.start_waiting(changed, 1, [&] {
            unique_lock lock(m);
            EXPECT_EQ(changed.wait(lock), wait_result::notified);
            EXPECT_EQ(word_of(m).load(), all ? contended : held);
        });
        if (all) {
            const std::lock_guard hold(m);
            changed.notify_all();
        } else {
            while (!m.try_lock())
                TypeParam::yield();
            m.unlock();  // it waits, and has unlocked
            changed.notify_one();
        }
    }
}

TYPED_TEST(ConditionVariable, NotifyWithNobodyThereIsForgotten) {
    mutex m;
    condition_variable changed;
    changed.notify_all();
    changed.notify_one();
    unique_lock lock(m);
    EXPECT_EQ(changed.wait_for(lock, 1us), wait_result::timed_out);
    changed.notify_all();
    EXPECT_EQ(changed.wait_for(lock, 1us), wait_result::timed_out);
}

// A queue of one place between two who produce and two who consume.
TYPED_TEST(ConditionVariable, LosesNoNotify) {
    constexpr int rounds = 3000;
    mutex m;
    condition_variable filled;
    condition_variable emptied;
    std::deque<int> place;
    long sum = 0;
    team<TypeParam> many;
    many.start_together(4, [&](int who) {
        for (int i = 0; i < rounds; ++i) {
            unique_lock lock(m);
            if (who < 2) {
                ASSERT_EQ(emptied.wait(lock, [&] { return place.empty(); }), wait_result::notified);
                place.push_back(i);
                filled.notify_one();
            } else {
                ASSERT_EQ(filled.wait(lock, [&] { return !place.empty(); }), wait_result::notified);
                sum += place.front();
                place.pop_front();
                lock.unlock();
                emptied.notify_one();
            }
        }
    });
    many.join();
    EXPECT_EQ(sum, long{rounds} * (rounds - 1));
}

// Rounds in which all wait for each other: every notify_all, with the mutex held or not, counts; so
// do those that find waiters leaving by their deadline.
TYPED_TEST(ConditionVariable, LosesNoNotifyAll) {
    constexpr int rounds = 1500;
    constexpr int members = 4;
    mutex m;
    condition_variable arrived;
    int missing = members;
    int round = 0;
    team<TypeParam> many;
    many.start_together(members, [&](int who) {
        for (int i = 0; i < rounds; ++i) {
            unique_lock lock(m);
            if (--missing == 0) {
                missing = members;
                ++round;
                if (i % 2 == 0) lock.unlock();
                arrived.notify_all();
                continue;
            }
            const auto is_over = [&] { return round != i; };
            if (who == 0) {
                while (arrived.wait_for(lock, 5us, is_over) != wait_result::notified) {
                }
            } else {
                ASSERT_EQ(arrived.wait(lock, is_over), wait_result::notified);
            }
        }
    });
    many.join();
    EXPECT_EQ(round, rounds);
    EXPECT_TRUE(m.try_lock()) << "and the mutex is free at the end";
    m.unlock();
}

TYPED_TEST(ConditionVariable, ATimedWaitIsNeverEarly) {
    mutex m;
    condition_variable changed;
    unique_lock lock(m);
    for (const auto delay : {0us, 1us, 300us, 2000us}) {
        const time_point until = now() + delay;
        EXPECT_EQ(changed.wait_until(lock, until), wait_result::timed_out);
        EXPECT_GE(now(), until);
        const time_point begun = now();
        EXPECT_EQ(changed.wait_for(lock, delay, [] { return false; }), wait_result::timed_out);
        EXPECT_GE(now() - begun, delay);
        EXPECT_TRUE(lock.owns_lock() && is_held(m));
    }
    EXPECT_EQ(changed.wait_until(lock, past), wait_result::timed_out);
    EXPECT_EQ(changed.wait_for(lock, std::chrono::hours::min()), wait_result::timed_out);
}

TYPED_TEST(ConditionVariable, ATruePredicateNeedsNoWait) {
    mutex m;
    condition_variable changed;
    unique_lock lock(m);
    const auto yes = [] { return true; };
    EXPECT_EQ(changed.wait(lock, yes), wait_result::notified);
    EXPECT_EQ(changed.wait_until(lock, past, yes), wait_result::notified);
    EXPECT_EQ(changed.wait_for(lock, 0s, yes), wait_result::notified);
}

TYPED_TEST(ConditionVariable, APredicateIsAskedOnceMoreAtTheDeadline) {
    mutex m;
    condition_variable changed;
    unique_lock lock(m);
    int asked = 0;
    EXPECT_EQ(changed.wait_until(lock, past, [&] { return ++asked == 2; }), wait_result::notified);
    EXPECT_EQ(asked, 2);
}

TYPED_TEST(ConditionVariable, AnInterruptEndsAWait) {
    mutex m;
    condition_variable changed;
    team<TypeParam> many;
    const auto waits = [&] {
        unique_lock lock(m);
        EXPECT_EQ(changed.wait(lock), wait_result::interrupted);
        EXPECT_TRUE(lock.owns_lock() && is_held(m));
        EXPECT_EQ(changed.wait_for(lock, 1us), wait_result::timed_out) << "it is consumed";
    };
    const auto waits_for_more = [&] {
        unique_lock lock(m);
        EXPECT_EQ(changed.wait(lock, [] { return false; }), wait_result::interrupted);
        EXPECT_TRUE(is_held(m));
    };
    interrupt(many.start_waiting(changed, 1, waits));
    many.join();
    interrupt(many.start_waiting(changed, 1, waits_for_more));
    many.join();
    many.start([&] {
        interrupt(verge::detail::sync::current());
        waits();
    });
    many.join();  // before `waits` goes
}

TYPED_TEST(ConditionVariable, AStopRequestEndsEveryWait) {
    mutex m;
    condition_variable changed;
    team<TypeParam> many;
    verge::detail::sync::waiter& who = many.start_waiting(changed, 1, [&] {
        unique_lock lock(m);
        const no_unwind here;
        EXPECT_EQ(changed.wait(lock), wait_result::stopped);
        EXPECT_EQ(changed.wait(lock), wait_result::stopped) << "it stays";
        EXPECT_TRUE(is_held(m));
    });
    who.request(verge::detail::sync::waiter::stop_request);
}

// Interrupted ones leave; a notify goes to one that stays.
TYPED_TEST(ConditionVariable, AnInterruptTakesNoNotifyWithIt) {
    for (int i = 0; i < 200; ++i) {
        mutex m;
        condition_variable changed;
        std::atomic<int> notified{0};
        team<TypeParam> many;
        const auto waits = [&] {
            unique_lock lock(m);
            if (changed.wait(lock) == wait_result::notified) notified.fetch_add(1);
        };
        verge::detail::sync::waiter& first = many.start_waiting(changed, 1, waits);
        many.start_waiting(changed, 2, waits);
        many.start([&] { changed.notify_one(); });
        interrupt(first);
        EXPECT_TRUE(eventually([&] { return notified.load() > 0; }));
        changed.notify_all();  // for the second, if the first was notified
        many.join();
    }
}

TYPED_TEST(ConditionVariable, TheMutexIsHeldOnEveryReturn) {
    mutex m;
    condition_variable changed;
    unique_lock lock(m);
    EXPECT_THROW(static_cast<void>(changed.wait_for(
                     lock, 1h, []() -> bool { throw std::runtime_error("predicate"); })),
                 std::runtime_error);
    EXPECT_TRUE(is_held(m));
    interrupt(verge::detail::sync::current());
    EXPECT_EQ(changed.wait(lock), wait_result::interrupted);
    EXPECT_TRUE(is_held(m));
    EXPECT_EQ(changed.wait_for(lock, 1us), wait_result::timed_out);
    EXPECT_TRUE(is_held(m));
}

TYPED_TEST(ConditionVariable, MayBeUsedWithOneMutexAfterAnother) {
    mutex mutexes[2];
    condition_variable changed;
    for (int i = 0; i < 6; ++i) {
        mutex& m = mutexes[i % 2];
        bool go = false;
        team<TypeParam> many;
        for (std::size_t n = 1; n <= 3; ++n) {
            many.start_waiting(changed, n, [&] {
                unique_lock lock(m);
                EXPECT_EQ(changed.wait(lock, [&] { return go; }), wait_result::notified);
            });
        }
        const std::lock_guard hold(m);
        go = true;
        changed.notify_all();
    }
}

TYPED_TEST(ConditionVariable, MayBeDestroyedOnceAllAreNotified) {
    for (int i = 0; i < 100; ++i) {
        mutex m;
        mortal<condition_variable> changed;
        int waiting = 0;
        bool go = false;
        team<TypeParam> many;
        for (int n = 0; n < 2; ++n) {
            many.start([&] {
                unique_lock lock(m);
                ++waiting;
                // No loop: it must not touch the condition again once it was notified.
                if (!go) changed->wait(lock);
            });
        }
        for (bool all = false; !all;) {
            const std::lock_guard hold(m);
            all = waiting == 2;
            go = all;
        }
        changed->notify_all();
        changed.destroy();
        many.join();
        EXPECT_TRUE(changed.untouched());
    }
}

#ifndef NDEBUG
TEST(ConditionVariableDeathTest, AWaitWithoutTheLock) {
    EXPECT_DEATH(
        {
            mutex m;
            condition_variable changed;
            unique_lock lock(m, std::defer_lock);
            changed.wait(lock);
        },
        "a lock that is held");
}
#endif

}  // namespace
}  // namespace verge::fibers
