#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/latch.hpp>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(Latch);
VERGE_SYNC_SUITE(WaitGroup);

static_assert(sizeof(latch) == 4 && sizeof(wait_group) == 4);
[[maybe_unused]] constinit latch global_latch(1);  // needs no code at start
[[maybe_unused]] constinit wait_group global_group;

TYPED_TEST(Latch, OpensWithTheLastCount) {
    latch l(3);
    long written[3] = {};
    team<TypeParam> many;
    for (std::size_t n = 1; n <= 2; ++n) {
        many.start_waiting(l, n, [&] {
            EXPECT_EQ(l.wait(), wait_result::notified);
            EXPECT_EQ(written[0] + written[1] + written[2], 6) << "sees what all wrote";
        });
    }
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(l.try_wait());
        EXPECT_EQ(waiters_on(word_of(l)), 2U);
        team<TypeParam> one;
        one.start([&] {
            written[i] = i + 1;
            l.count_down();
        });
    }
    EXPECT_TRUE(l.try_wait());
}

TYPED_TEST(Latch, AnOpenLatchHoldsNobody) {
    latch open(0);
    EXPECT_TRUE(open.try_wait());
    EXPECT_EQ(open.wait(), wait_result::notified);
    EXPECT_EQ(open.wait_until(past), wait_result::notified);
    latch l(5);
    l.count_down(5);
    EXPECT_EQ(l.wait_for(-1s), wait_result::notified);
    interrupt(verge::detail::sync::current());
    EXPECT_EQ(l.wait(), wait_result::notified) << "what needs no wait is not ended";
    verge::detail::sync::current().consume_interrupt();
}

TYPED_TEST(Latch, ArriveAndWaitMeets) {
    for (int i = 0; i < 50; ++i) {
        latch l(4);
        std::atomic<int> arrived{0};
        team<TypeParam> many;
        many.start_together(4, [&](int) {
            arrived.fetch_add(1);
            EXPECT_EQ(l.arrive_and_wait(), wait_result::notified);
            EXPECT_EQ(arrived.load(), 4);
        });
    }
}

TYPED_TEST(Latch, ATimedWaitIsNeverEarly) {
    latch l(1);
    for (const auto delay : {0us, 1us, 300us, 2000us}) {
        const time_point until = now() + delay;
        EXPECT_EQ(l.wait_until(until), wait_result::timed_out);
        EXPECT_GE(now(), until);
        const time_point begun = now();
        EXPECT_EQ(l.wait_for(delay), wait_result::timed_out);
        EXPECT_GE(now() - begun, delay);
    }
}

TYPED_TEST(Latch, AnInterruptEndsAWait) {
    latch l(1);
    team<TypeParam> many;
    interrupt(many.start_waiting(l, 1, [&] {
        EXPECT_EQ(l.wait(), wait_result::interrupted);
        interrupt(verge::detail::sync::current());
        EXPECT_EQ(l.wait_for(1h), wait_result::interrupted) << "also one that came before";
        verge::detail::sync::current().request(verge::detail::sync::waiter::stop_request);
        const no_unwind here;
        EXPECT_EQ(l.wait(), wait_result::stopped);
    }));
    many.join();
    EXPECT_FALSE(l.try_wait()) << "the count stays as it is";
}

TYPED_TEST(Latch, MayBeDestroyedByAWaiter) {
    for (int i = 0; i < 100; ++i) {
        mortal<latch> l(1U);
        team<TypeParam> many;
        many.start([&] {
            EXPECT_EQ(l->wait(), wait_result::notified);
            l.destroy();
        });
        if (i % 2 == 0) team<TypeParam>::wait_for_waiters(word_of(*l), 1);
        l->count_down();
        many.join();
        EXPECT_TRUE(l.untouched());
    }
}

TYPED_TEST(WaitGroup, WaitsUntilAllThatWereAddedAreDone) {
    wait_group jobs;
    EXPECT_EQ(jobs.wait(), wait_result::notified) << "nothing was added";
    for (int round = 0; round < 20; ++round) {
        std::atomic<int> ended{0};
        team<TypeParam> many;
        for (int i = 0; i < 4; ++i) {
            jobs.add();
            many.start([&] {
                ended.fetch_add(1);
                jobs.done();
            });
        }
        EXPECT_EQ(jobs.wait(), wait_result::notified);
        EXPECT_EQ(ended.load(), 4);
    }
}

TYPED_TEST(WaitGroup, AJobMayAddMore) {
    wait_group jobs;
    plain_counter leaves;  // each leaf is alone: the next is added by the one before
    team<TypeParam> outer;
    team<TypeParam> inner;
    jobs.add();
    outer.start([&] {
        jobs.add(2);
        inner.start([&] {
            leaves.count();
            jobs.done(2);
        });
        inner.join();
        jobs.done();
    });
    EXPECT_EQ(jobs.wait(), wait_result::notified);
    EXPECT_EQ(leaves.value, 1);
}

TYPED_TEST(WaitGroup, WakesAllWhoWait) {
    wait_group jobs(1);
    team<TypeParam> many;
    for (std::size_t n = 1; n <= 4; ++n)
        many.start_waiting(jobs, n, [&] { EXPECT_EQ(jobs.wait(), wait_result::notified); });
    jobs.add(2);
    jobs.done(2);
    EXPECT_EQ(waiters_on(word_of(jobs)), 4U);
    jobs.done();
}

TYPED_TEST(WaitGroup, ATimedWaitIsNeverEarly) {
    wait_group jobs(1);
    const time_point until = now() + 500us;
    EXPECT_EQ(jobs.wait_until(until), wait_result::timed_out);
    EXPECT_GE(now(), until);
    EXPECT_EQ(jobs.wait_for(1us), wait_result::timed_out);
}

TYPED_TEST(WaitGroup, AnInterruptEndsAWait) {
    wait_group jobs(1);
    team<TypeParam> many;
    interrupt(
        many.start_waiting(jobs, 1, [&] { EXPECT_EQ(jobs.wait(), wait_result::interrupted); }));
}

#ifndef NDEBUG
TEST(LatchDeathTest, CountsBelowZero) {
    EXPECT_DEATH(
        {
            latch l(1);
            l.count_down(2);
        },
        "counts below 0");
    EXPECT_DEATH(
        {
            wait_group jobs;
            jobs.done();
        },
        "counts below 0");
}
#endif

}  // namespace
}  // namespace verge::fibers
