#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/latch.hpp>
#include <verge/sync/shared_mutex.hpp>

#include <mutex>
#include <shared_mutex>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(SharedMutex);

static_assert(sizeof(shared_mutex) == 8);
[[maybe_unused]] constinit shared_mutex global_mutex;  // needs no code at start

// The word of the mutex that keeps the line, behind the object's own.
const std::atomic<std::uint32_t>& line_of(const shared_mutex& m) {
    return *(&word_of(m) + 1);
}

TYPED_TEST(SharedMutex, AWriterIsAlone) {
    constexpr int rounds = 2000;
    shared_mutex m;
    plain_counter counter;
    plain_counter twin;
    team<TypeParam> many;
    many.start_together(4, [&](int who) {
        for (int i = 0; i < rounds; ++i) {
            if (who < 2) {
                const std::lock_guard change(m);
                counter.count();
                if (i % 16 == 0) TypeParam::yield();  // so that others run into it
                twin.count();
            } else {
                const std::shared_lock look(m);
                EXPECT_EQ(counter.value, twin.value);
            }
        }
    });
    many.join();
    EXPECT_EQ(counter.value, 2 * rounds);
    EXPECT_TRUE(m.try_lock()) << "and it is free at the end";
    m.unlock();
}

TYPED_TEST(SharedMutex, AllWaysToLockKeepWritersAlone) {
    constexpr int rounds = 1500;
    shared_mutex m;
    plain_counter counter;
    plain_counter twin;
    std::atomic<long> written{0};
    team<TypeParam> many;
    many.start_together(6, [&](int who) {
        for (int i = 0; i < rounds; ++i) {
            bool got = true;
            if (who == 0) m.lock();
            if (who == 1) got = m.try_lock();
            if (who == 2) got = m.try_lock_for(i % 5 * 1us);
            if (who == 3) m.lock_shared();
            if (who == 4) got = m.try_lock_shared();
            if (who == 5) got = m.try_lock_shared_until(now() + i % 5 * 1us);
            if (!got) continue;
            if (who < 3) {
                counter.count();
                if (i % 8 == 0) TypeParam::yield();
                twin.count();
                written.fetch_add(1);
                m.unlock();
            } else {
                if (i % 8 == 0) TypeParam::yield();
                EXPECT_EQ(counter.value, twin.value);
                m.unlock_shared();
            }
        }
    });
    many.join();
    EXPECT_EQ(counter.value, written.load());
    EXPECT_TRUE(m.try_lock()) << "and it is free at the end";
    m.unlock();
}

TYPED_TEST(SharedMutex, ReadersShare) {
    shared_mutex m;
    latch all_in(3);
    team<TypeParam> many;
    many.start_together(3, [&](int) {
        const std::shared_lock look(m);
        all_in.arrive_and_wait();
    });
    many.join();
    const std::shared_lock look(m);
    EXPECT_FALSE(m.try_lock());
    EXPECT_TRUE(m.try_lock_shared());
    m.unlock_shared();
}

TYPED_TEST(SharedMutex, AWriterInLineHoldsNewReadersBack) {
    shared_mutex m;
    std::vector<char> order;
    team<TypeParam> many;
    m.lock_shared();
    many.start_waiting(m, 1, [&] {
        const std::lock_guard change(m);
        order.push_back('w');
    });
    EXPECT_FALSE(m.try_lock_shared());
    EXPECT_FALSE(m.try_lock_shared_for(1us));
    many.start([&] {
        const std::shared_lock look(m);
        order.push_back('r');
    });
    team<TypeParam>::wait_for_waiters(line_of(m), 1);
    m.unlock_shared();
    many.join();
    EXPECT_EQ(order, (std::vector{'w', 'r'}));
}

TYPED_TEST(SharedMutex, AReaderInLineHoldsNewWritersBack) {
    shared_mutex m;
    std::vector<char> order;
    team<TypeParam> many;
    m.lock();
    many.start_waiting(m, 1, [&] {
        const std::shared_lock look(m);
        order.push_back('r');
    });
    many.start([&] {
        const std::lock_guard change(m);
        order.push_back('w');
    });
    team<TypeParam>::wait_for_waiters(line_of(m), 1);
    m.unlock();
    many.join();
    EXPECT_EQ(order, (std::vector{'r', 'w'}));
}

// Two readers see to it that the readers never all leave: only the line lets the writer in.
TYPED_TEST(SharedMutex, AWriterIsNotStarved) {
    shared_mutex m;
    std::atomic<bool> written{false};
    std::atomic<int> turn{0};
    team<TypeParam> many;
    m.lock_shared();
    many.start_together(2, [&](int who) {
        while (!written.load()) {
            const std::shared_lock look(m);
            turn.store(who);
            // Until the other one is in as well, or is held back by the writer.
            for (int i = 0; i < 100 && turn.load() == who && !written.load(); ++i)
                TypeParam::yield();
        }
    });
    many.start([&] {
        const std::lock_guard change(m);
        written.store(true);
    });
    while (m.try_lock_shared()) {  // until the writer stands in line
        m.unlock_shared();
        TypeParam::yield();
    }
    m.unlock_shared();
    many.join();
    EXPECT_TRUE(written.load());
}

TYPED_TEST(SharedMutex, ATimedLockIsNeverEarly) {
    shared_mutex m;
    m.lock();
    team<TypeParam> many;
    many.start([&] {
        for (const auto delay : {0us, 1us, 500us}) {
            const time_point until = now() + delay;
            EXPECT_FALSE(m.try_lock_until(until));
            EXPECT_GE(now(), until);
            const time_point shared_until = now() + delay;
            EXPECT_FALSE(m.try_lock_shared_until(shared_until));
            EXPECT_GE(now(), shared_until);
            EXPECT_FALSE(m.try_lock_for(delay));
            EXPECT_FALSE(m.try_lock_shared_for(delay));
        }
    });
    many.join();
    m.unlock();
    EXPECT_TRUE(m.try_lock()) << "who gave up left no trace";
    m.unlock();
}

TYPED_TEST(SharedMutex, AWriterThatGivesUpLetsThoseBehindItGoOn) {
    shared_mutex m;
    std::atomic<bool> given_up{false};
    m.lock_shared();
    team<TypeParam> many;
    many.start([&] {
        EXPECT_FALSE(m.try_lock_for(2ms));
        given_up.store(true);
    });
    many.start([&] {
        m.lock_shared();  // before the writer, behind it, or after it
        m.unlock_shared();
    });
    many.join();
    EXPECT_TRUE(given_up.load());
    EXPECT_TRUE(m.try_lock_shared()) << "the line is empty";
    m.unlock_shared();
    m.unlock_shared();
}

TYPED_TEST(SharedMutex, AnInterruptDoesNotEndALock) {
    shared_mutex m;
    team<TypeParam> many;
    m.lock();
    verge::detail::sync::waiter& who = many.start_waiting(m, 1, [&] {
        const std::shared_lock look(m);
        const std::atomic<std::uint32_t> word{0};
        EXPECT_EQ(wait(word, 0), wait_result::interrupted) << "it was kept";
    });
    interrupt(who);
    EXPECT_EQ(waiters_on(word_of(m)), 1U);
    m.unlock();
}

TYPED_TEST(SharedMutex, MayBeDestroyedByWhoLocksItLast) {
    for (int i = 0; i < 100; ++i) {
        mortal<shared_mutex> m;
        i % 2 == 0 ? m->lock() : m->lock_shared();
        team<TypeParam> many;
        many.start([&] {
            m->lock();
            m->unlock();
            m.destroy();
        });
        if (i % 4 < 2) team<TypeParam>::wait_for_waiters(word_of(*m), 1);
        i % 2 == 0 ? m->unlock() : m->unlock_shared();
        many.join();
        EXPECT_TRUE(m.untouched());
    }
}

#ifndef NDEBUG
TEST(SharedMutexDeathTest, UnlockOfWhatIsNotLocked) {
    EXPECT_DEATH(
        {
            shared_mutex m;
            m.unlock();
        },
        "without its writer");
    EXPECT_DEATH(
        {
            shared_mutex m;
            m.unlock_shared();
        },
        "without reader");
}
#endif

}  // namespace
}  // namespace verge::fibers
