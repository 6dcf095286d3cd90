#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/semaphore.hpp>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(Semaphore);

static_assert(sizeof(semaphore) == 4);
[[maybe_unused]] constinit semaphore global_semaphore(3);  // needs no code at start

TYPED_TEST(Semaphore, GivesOutNoMoreThanItHas) {
    constexpr int rounds = 2000;
    constexpr int permits = 2;
    semaphore s(permits);
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    team<TypeParam> many;
    many.start_together(4, [&](int) {
        for (int i = 0; i < rounds; ++i) {
            ASSERT_EQ(s.acquire(), wait_result::notified);
            const int n = inside.fetch_add(1) + 1;
            if (n > most.load()) most.store(n);
            if (i % 8 == 0) TypeParam::yield();
            inside.fetch_sub(1);
            s.release();
        }
    });
    many.join();
    EXPECT_LE(most.load(), permits);
    EXPECT_EQ(s.available(), permits);
}

TYPED_TEST(Semaphore, WhatIsAcquiredSeesWhatWasWrittenBefore) {
    semaphore full(0);
    semaphore empty(1);
    plain_counter counter;
    team<TypeParam> many;
    many.start([&] {
        for (int i = 0; i < 2000; ++i) {
            ASSERT_EQ(empty.acquire(), wait_result::notified);
            counter.count();
            full.release();
        }
    });
    for (int i = 0; i < 2000; ++i) {
        ASSERT_EQ(full.acquire(), wait_result::notified);
        EXPECT_EQ(counter.value, i + 1);
        empty.release();
    }
}

// Permits come in lots of every size, also faster than those woken can take them; some who acquire
// give up.  All permits are taken at the end: nobody waits while there is one.
TYPED_TEST(Semaphore, LosesNoRelease) {
    constexpr int each = 3000;
    semaphore s(0);
    std::atomic<int> taken{0};
    team<TypeParam> many;
    many.start_together(4, [&](int who) {
        for (int got = 0; got < each;) {
            const wait_result why = who == 0 ? s.acquire_for(got % 5 * 1us) : s.acquire();
            if (why == wait_result::notified) ++got;
        }
        taken.fetch_add(each);
    });
    for (int left = 4 * each, n = 1; left > 0; n = n % 7 + 1) {
        const int lot = std::min(n, left);
        s.release(static_cast<std::uint32_t>(lot));
        if (lot == 1) s.release(0);
        if (n == 5) TypeParam::yield();
        left -= lot;
    }
    many.join();
    EXPECT_EQ(taken.load(), 4 * each);
    EXPECT_EQ(s.available(), 0U);
}

TYPED_TEST(Semaphore, TwoReleasesInARowWakeTwo) {
    for (int i = 0; i < 100; ++i) {
        semaphore s(0);
        team<TypeParam> many;
        for (std::size_t n = 1; n <= 3; ++n)
            many.start_waiting(s, n, [&] { EXPECT_EQ(s.acquire(), wait_result::notified); });
        s.release();  // clears the mark that somebody waits; whoever is woken is not awake yet
        s.release();
        s.release();
    }
}

TYPED_TEST(Semaphore, WakesWhoHasWaitedLongest) {
    semaphore s(0);
    std::atomic<int> last{-1};
    team<TypeParam> many;
    for (int i = 0; i < 3; ++i) {
        many.start_waiting(s, static_cast<std::size_t>(i) + 1, [&, i] {
            EXPECT_EQ(s.acquire(), wait_result::notified);
            last.store(i);
        });
    }
    for (int i = 0; i < 3; ++i) {
        s.release();
        while (last.load() != i)
            TypeParam::yield();
    }
}

TYPED_TEST(Semaphore, ReleasingManyWakesAsMany) {
    semaphore s(0);
    std::atomic<int> passed{0};
    team<TypeParam> many;
    for (std::size_t n = 1; n <= 5; ++n) {
        many.start_waiting(s, n, [&] {
            EXPECT_EQ(s.acquire(), wait_result::notified);
            passed.fetch_add(1);
        });
    }
    s.release(3);
    while (passed.load() != 3)
        TypeParam::yield();
    team<TypeParam>::wait_for_waiters(word_of(s), 2);  // one may have been woken in vain (SE3)
    EXPECT_EQ(passed.load(), 3);
    s.release(2);
}

TYPED_TEST(Semaphore, TryAcquireTakesWhatThereIs) {
    semaphore s(2);
    EXPECT_TRUE(s.try_acquire());
    EXPECT_TRUE(s.try_acquire());
    EXPECT_FALSE(s.try_acquire());
    s.release();
    EXPECT_EQ(s.available(), 1U);
    EXPECT_EQ(s.acquire_until(past), wait_result::notified) << "a permit needs no time";
    EXPECT_FALSE(s.try_acquire());
}

TYPED_TEST(Semaphore, ATimedAcquireIsNeverEarly) {
    semaphore s(0);
    for (const auto delay : {0us, 1us, 300us, 2000us}) {
        const time_point until = now() + delay;
        EXPECT_EQ(s.acquire_until(until), wait_result::timed_out);
        EXPECT_GE(now(), until);
        const time_point begun = now();
        EXPECT_EQ(s.acquire_for(delay), wait_result::timed_out);
        EXPECT_GE(now() - begun, delay);
    }
    s.release();
    EXPECT_EQ(s.available(), 1U) << "who gave up took none";
}

TYPED_TEST(Semaphore, AnInterruptEndsAnAcquire) {
    semaphore s(0);
    team<TypeParam> many;
    interrupt(many.start_waiting(s, 1, [&] {
        EXPECT_EQ(s.acquire(), wait_result::interrupted);
        interrupt(verge::detail::sync::current());
        EXPECT_EQ(s.acquire_for(1h), wait_result::interrupted) << "also one that came before";
        verge::detail::sync::current().request(verge::detail::sync::waiter::stop_request);
        const no_unwind here;
        EXPECT_EQ(s.acquire(), wait_result::stopped);
        s.release();
        EXPECT_EQ(s.acquire(), wait_result::notified) << "what needs no wait is not ended";
    }));
    many.join();
    s.release();
    EXPECT_EQ(s.available(), 1U) << "and takes no permit";
}

TYPED_TEST(Semaphore, MayBeDestroyedByWhoAcquiresLast) {
    for (int i = 0; i < 100; ++i) {
        mortal<semaphore> s(0U);
        team<TypeParam> many;
        many.start([&] {
            EXPECT_EQ(s->acquire(), wait_result::notified);
            s.destroy();
        });
        if (i % 2 == 0) team<TypeParam>::wait_for_waiters(word_of(*s), 1);
        s->release();
        many.join();
        EXPECT_TRUE(s.untouched());
    }
}

#ifndef NDEBUG
TEST(SemaphoreDeathTest, MorePermitsThanThereCanBe) {
    EXPECT_DEATH(
        {
            semaphore s(semaphore::max);
            s.release();
        },
        "too many permits");
}
#endif

}  // namespace
}  // namespace verge::fibers
