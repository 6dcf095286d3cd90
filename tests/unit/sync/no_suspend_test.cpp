#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/event.hpp>
#include <verge/sync/mutex.hpp>
#include <verge/sync/no_suspend.hpp>
#include <verge/sync/semaphore.hpp>

#include <mutex>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(NoSuspend);

TYPED_TEST(NoSuspend, ALockThatNeedNotWaitIsNoWait) {
    team<TypeParam> many;
    many.start([] {
        mutex m;
        semaphore s(1);
        event e;
        const no_suspend here;
        {
            const std::lock_guard hold(m);
            e.set();
        }
        EXPECT_EQ(e.wait(), wait_result::notified);
        EXPECT_EQ(s.acquire(), wait_result::notified);
        s.release();
    });
}

TYPED_TEST(NoSuspend, AfterTheScopeAWaitIsAWait) {
    team<TypeParam> many;
    many.start([] {
        event e;
        {
            const no_suspend outer;
            const no_suspend inner;
        }
        EXPECT_EQ(e.wait_for(1us), wait_result::timed_out);
    });
}

// Another one may wait meanwhile.
TYPED_TEST(NoSuspend, HoldsForWhoMadeItOnly) {
    event e;
    team<TypeParam> many;  // joins at its end: that is a wait
    const no_suspend here;
    many.start_waiting(e, 1, [&] { EXPECT_EQ(e.wait(), wait_result::notified); });
    e.set();
}

#ifndef NDEBUG
TEST(NoSuspendDeathTest, AWaitInsideAborts) {
    EXPECT_DEATH(
        {
            mutex m;
            m.lock();
            const no_suspend here;
            m.lock();
        },
        "a wait inside a no_suspend scope");
    EXPECT_DEATH(
        {
            event e;
            const no_suspend here;
            static_cast<void>(e.wait_for(1us));
        },
        "a wait inside a no_suspend scope");
}

// What a fiber does inside such a scope.
template <class Work>
void in_a_scope(Work work) {
    scheduler fibers({.min_workers = 1, .max_workers = 1});
    fibers
        .spawn([&] {
            const no_suspend here;
            work(fibers);
        })
        .join();
}

TEST(NoSuspendDeathTest, WhateverSuspendsAFiberAborts) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    constexpr const char* told = "inside a no_suspend scope";
    EXPECT_DEATH(in_a_scope([](scheduler&) { this_fiber::yield(); }), told);
    EXPECT_DEATH(in_a_scope([](scheduler&) { this_fiber::sleep_for(1us); }), told);
    EXPECT_DEATH(in_a_scope([](scheduler& s) { s.spawn([] {}).join(); }), told);
    EXPECT_DEATH(in_a_scope([](scheduler& s) { s.spawn(urgent, [] {}).detach(); }), told);
}

TEST(NoSuspendDeathTest, ScopesNest) {
    EXPECT_DEATH(
        {
            event e;
            const no_suspend outer;
            { const no_suspend inner; }
            static_cast<void>(e.wait_for(1us));
        },
        "a wait inside a no_suspend scope");
}
#endif

}  // namespace
}  // namespace verge::fibers
