#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/recursive_mutex.hpp>

#include <mutex>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(RecursiveMutex);

static_assert(sizeof(recursive_mutex) == 16);
[[maybe_unused]] constinit recursive_mutex global_mutex;  // needs no code at start

TYPED_TEST(RecursiveMutex, ItsHolderMayLockItAgain) {
    recursive_mutex m;
    const auto another_gets_it = [&] {
        bool got = false;
        team<TypeParam> many;
        many.start([&] {
            got = m.try_lock();
            if (got) m.unlock();
        });
        many.join();
        return got;
    };
    m.lock();
    EXPECT_TRUE(m.try_lock());
    EXPECT_TRUE(m.try_lock_for(1us));
    EXPECT_TRUE(m.try_lock_until(past));
    for (int i = 0; i < 4; ++i) {
        EXPECT_FALSE(another_gets_it()) << i;
        m.unlock();
    }
    EXPECT_TRUE(another_gets_it());
}

TYPED_TEST(RecursiveMutex, LetsOneInAtATime) {
    constexpr int rounds = 3000;
    recursive_mutex m;
    plain_counter counter;
    team<TypeParam> many;
    many.start_together(4, [&](int) {
        for (int i = 0; i < rounds; ++i) {
            const std::lock_guard outer(m);
            const std::lock_guard inner(m);
            counter.count();
            if (i % 16 == 0) TypeParam::yield();  // so that others run into it
        }
    });
    many.join();
    EXPECT_EQ(counter.value, 4 * rounds);
}

TYPED_TEST(RecursiveMutex, ATimedLockIsNeverEarly) {
    recursive_mutex m;
    m.lock();
    team<TypeParam> many;
    many.start([&] {
        for (const auto delay : {0us, 1us, 500us}) {
            const time_point until = now() + delay;
            EXPECT_FALSE(m.try_lock_until(until));
            EXPECT_GE(now(), until);
            EXPECT_FALSE(m.try_lock_for(delay));
        }
    });
    many.join();
    m.unlock();
}

TYPED_TEST(RecursiveMutex, AnInterruptDoesNotEndALock) {
    recursive_mutex m;
    team<TypeParam> many;
    m.lock();
    verge::detail::sync::waiter& who = many.start_waiting(m, 1, [&] {
        const std::lock_guard hold(m);
        const std::atomic<std::uint32_t> word{0};
        EXPECT_EQ(wait(word, 0), wait_result::interrupted) << "it was kept";
    });
    interrupt(who);
    EXPECT_EQ(waiters_on(word_of(m)), 1U);
    m.unlock();
}

#ifndef NDEBUG
TEST(RecursiveMutexDeathTest, UnlockByAnotherThanItsHolder) {
    EXPECT_DEATH(
        {
            recursive_mutex m;
            m.lock();
            std::thread([&] { m.unlock(); }).join();
        },
        "by another than its holder");
}
#endif

}  // namespace
}  // namespace verge::fibers
