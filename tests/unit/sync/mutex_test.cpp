#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/mutex.hpp>

#include <mutex>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(Mutex);

static_assert(sizeof(mutex) == 4);
static_assert(!std::is_copy_constructible_v<mutex> && !std::is_copy_assignable_v<mutex>);
[[maybe_unused]] constinit mutex global_mutex;  // needs no code at start

TYPED_TEST(Mutex, LetsOneInAtATime) {
    constexpr int rounds = 5000;
    mutex m;
    plain_counter counter;
    team<TypeParam> many;
    many.start_together(4, [&](int) {
        for (int i = 0; i < rounds; ++i) {
            const std::lock_guard hold(m);
            counter.count();
            if (i % 16 == 0) TypeParam::yield();  // so that others run into it
        }
    });
    many.join();
    EXPECT_EQ(counter.value, 4 * rounds);
}

TYPED_TEST(Mutex, AllWaysToLockLetOneInAtATime) {
    constexpr int rounds = 2000;
    mutex m;
    plain_counter counter;
    std::atomic<long> entered{0};
    team<TypeParam> many;
    many.start_together(4, [&](int who) {
        for (int i = 0; i < rounds; ++i) {
            bool got = true;
            if (who == 0) m.lock();
            if (who == 1) got = m.try_lock();
            if (who == 2) got = m.try_lock_for(1us);
            if (who == 3) got = m.try_lock_until(now() + 20us);
            if (!got) continue;
            counter.count();
            entered.fetch_add(1);
            if (i % 8 == 0) TypeParam::yield();
            m.unlock();
        }
    });
    many.join();
    EXPECT_GE(entered.load(), rounds);
    EXPECT_EQ(counter.value, entered.load());
    EXPECT_TRUE(m.try_lock()) << "and it is free at the end";
    m.unlock();
}

TYPED_TEST(Mutex, WakesWhoHasWaitedLongest) {
    mutex m;
    std::vector<int> order;
    team<TypeParam> many;
    m.lock();
    for (int i = 0; i < 4; ++i) {
        many.start_waiting(m, static_cast<std::size_t>(i) + 1, [&, i] {
            const std::lock_guard hold(m);
            order.push_back(i);
        });
    }
    m.unlock();
    many.join();
    EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TYPED_TEST(Mutex, TryLockSaysWhetherItGotIt) {
    mutex m;
    EXPECT_TRUE(m.try_lock());
    team<TypeParam> many;
    many.start([&] { EXPECT_FALSE(m.try_lock()); });
    many.join();
    m.unlock();
    many.start([&] {
        EXPECT_TRUE(m.try_lock());
        m.unlock();
    });
}

TYPED_TEST(Mutex, ATimedLockIsNeverEarly) {
    mutex m;
    m.lock();
    team<TypeParam> many;
    many.start([&] {
        for (const auto delay : {0us, 1us, 300us, 2000us}) {
            const time_point until = now() + delay;
            EXPECT_FALSE(m.try_lock_until(until));
            EXPECT_GE(now(), until);
            const time_point begun = now();
            EXPECT_FALSE(m.try_lock_for(delay));
            EXPECT_GE(now() - begun, delay);
        }
        EXPECT_FALSE(m.try_lock_until(past));
        EXPECT_FALSE(m.try_lock_for(-1s));
        EXPECT_FALSE(m.try_lock_for(std::chrono::hours::min()));
    });
    many.join();
    m.unlock();
    EXPECT_TRUE(m.try_lock_until(past)) << "a free one needs no time";
    m.unlock();
}

TYPED_TEST(Mutex, ATimedLockGetsIt) {
    mutex m;
    m.lock();
    team<TypeParam> many;
    many.start_waiting(m, 1, [&] {
        EXPECT_TRUE(m.try_lock_for(std::chrono::hours::max()));  // saturates
        m.unlock();
    });
    many.start_waiting(m, 2, [&] {
        EXPECT_TRUE(m.try_lock_until(now() + 1h));
        m.unlock();
    });
    m.unlock();
}

// Timed waiters with the shortest delays give up at every moment; those who wait for ever must not
// be left behind.
TYPED_TEST(Mutex, ATimedWaiterPassesAWakeUpOn) {
    constexpr int rounds = 2000;
    const time_point enough = now() + 5s;  // on a machine that is busy
    mutex m;
    plain_counter counter;
    std::atomic<long> locked{0};
    team<TypeParam> many;
    many.start_together(4, [&](int who) {
        for (int i = 0; i < rounds && now() < enough; ++i) {
            if (who % 2 == 0) {
                m.lock();
            } else if (!m.try_lock_for(i % 7 * 1us)) {
                continue;
            }
            ++locked;
            counter.count();
            TypeParam::yield();
            m.unlock();
        }
    });
    many.join();
    EXPECT_EQ(counter.value, locked);
}

TYPED_TEST(Mutex, AnInterruptDoesNotEndALock) {
    mutex m;
    std::atomic<bool> locked{false};
    team<TypeParam> many;
    m.lock();
    verge::detail::sync::waiter& who = many.start_waiting(m, 1, [&] {
        m.lock();
        locked.store(true);
        m.unlock();
        const std::atomic<std::uint32_t> word{0};
        EXPECT_EQ(wait(word, 0), wait_result::interrupted) << "it was kept";
    });
    interrupt(who);
    EXPECT_EQ(waiters_on(word_of(m)), 1U);
    EXPECT_FALSE(locked.load());
    m.unlock();
}

TYPED_TEST(Mutex, MayBeDestroyedByWhoLocksItLast) {
    for (int i = 0; i < 100; ++i) {
        mortal<mutex> m;
        m->lock();
        team<TypeParam> many;
        many.start([&] {
            m->lock();
            m->unlock();
            m.destroy();
        });
        if (i % 2 == 0) team<TypeParam>::wait_for_waiters(word_of(*m), 1);
        m->unlock();
        many.join();
        EXPECT_TRUE(m.untouched());
    }
}

TYPED_TEST(Mutex, WorksWithTheLocksOfTheStandardLibrary) {
    constexpr int rounds = 500;
    mutex a;
    mutex b;
    mutex c;
    plain_counter counter;
    team<TypeParam> many;
    many.start_together(3, [&](int who) {
        for (int i = 0; i < rounds; ++i) {
            if (who == 0) {
                const std::scoped_lock all(a, b, c);
                counter.count();
            } else if (who == 1) {
                const std::scoped_lock all(c, a, b);
                counter.count();
            } else {
                std::unique_lock x(b, std::defer_lock);
                std::unique_lock y(c, std::defer_lock);
                std::lock(y, x);
                counter.count();
            }
        }
    });
    many.join();
    EXPECT_EQ(counter.value, 3 * rounds);
    std::unique_lock timed(a, 1ms);
    EXPECT_TRUE(timed.owns_lock());
    std::unique_lock until(b, now() + 1ms);
    EXPECT_TRUE(until.owns_lock());
}

#ifndef NDEBUG
TEST(MutexDeathTest, UnlockOfAMutexThatNobodyHolds) {
    EXPECT_DEATH(
        {
            mutex m;
            m.unlock();
        },
        "unlock of a mutex that nobody holds");
}
#endif

}  // namespace
}  // namespace verge::fibers
