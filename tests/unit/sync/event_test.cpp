#include "unit/sync/sync_fixture.hpp"
#include <verge/sync/event.hpp>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(Event);
VERGE_SYNC_SUITE(AutoResetEvent);

static_assert(sizeof(event) == 4 && sizeof(auto_reset_event) == 4);
[[maybe_unused]] constinit event global_event;  // needs no code at start
[[maybe_unused]] constinit auto_reset_event global_auto_event;

TYPED_TEST(Event, SetLetsAllGoOn) {
    event e;
    long written = 0;
    team<TypeParam> many;
    for (std::size_t n = 1; n <= 3; ++n) {
        many.start_waiting(e, n, [&] {
            EXPECT_EQ(e.wait(), wait_result::notified);
            EXPECT_EQ(written, 1) << "sees what was written before set()";
        });
    }
    written = 1;
    e.set();
    EXPECT_TRUE(e.is_set());
    EXPECT_EQ(e.wait(), wait_result::notified) << "and all who come later";
    EXPECT_EQ(e.wait_until(past), wait_result::notified);
}

TYPED_TEST(Event, IsSetFromTheBeginningIfSaid) {
    event e(true);
    EXPECT_TRUE(e.is_set());
    EXPECT_EQ(e.wait_for(0s), wait_result::notified);
    e.set();
    EXPECT_TRUE(e.is_set());
    e.reset();
    e.reset();
    EXPECT_FALSE(e.is_set());
    EXPECT_EQ(e.wait_for(0s), wait_result::timed_out);
    e.set();
    EXPECT_TRUE(e.is_set());
}

TYPED_TEST(Event, AResetDoesNotHoldWhoWaitedAtTheSet) {
    for (int i = 0; i < 50; ++i) {
        event e;
        team<TypeParam> many;
        for (std::size_t n = 1; n <= 3; ++n)
            many.start_waiting(e, n, [&] { EXPECT_EQ(e.wait(), wait_result::notified); });
        e.set();
        e.reset();
        many.join();
        EXPECT_FALSE(e.is_set());
    }
}

TYPED_TEST(Event, TwoTakeTurnsByTwoEvents) {
    constexpr int rounds = 2000;
    event ping;
    event pong;
    plain_counter counter;
    team<TypeParam> many;
    many.start([&] {
        for (int i = 0; i < rounds; ++i) {
            ASSERT_EQ(ping.wait(), wait_result::notified);
            ping.reset();
            counter.count();
            pong.set();
        }
    });
    for (int i = 0; i < rounds; ++i) {
        counter.count();
        ping.set();
        ASSERT_EQ(pong.wait(), wait_result::notified);
        pong.reset();
    }
    EXPECT_EQ(counter.value, 2 * rounds);
}

template <class T>
void expect_never_early() {
    T e;
    for (const auto delay : {0us, 1us, 300us, 2000us}) {
        const time_point until = now() + delay;
        EXPECT_EQ(e.wait_until(until), wait_result::timed_out);
        EXPECT_GE(now(), until);
        const time_point begun = now();
        EXPECT_EQ(e.wait_for(delay), wait_result::timed_out);
        EXPECT_GE(now() - begun, delay);
    }
}

template <class Runner, class T>
void expect_interrupt_ends_a_wait() {
    T e;
    team<Runner> many;
    interrupt(many.start_waiting(e, 1, [&] {
        EXPECT_EQ(e.wait(), wait_result::interrupted);
        interrupt(verge::detail::sync::current());
        EXPECT_EQ(e.wait_for(1h), wait_result::interrupted) << "also one that came before";
        verge::detail::sync::current().request(verge::detail::sync::waiter::stop_request);
        const no_unwind here;
        EXPECT_EQ(e.wait(), wait_result::stopped);
        e.set();
        EXPECT_EQ(e.wait(), wait_result::notified) << "what needs no wait is not ended";
    }));
}

template <class Runner, class T>
void expect_may_be_destroyed_by_a_waiter() {
    for (int i = 0; i < 100; ++i) {
        mortal<T> e;
        team<Runner> many;
        many.start([&] {
            EXPECT_EQ(e->wait(), wait_result::notified);
            e.destroy();
        });
        if (i % 2 == 0) team<Runner>::wait_for_waiters(word_of(*e), 1);
        e->set();
        many.join();
        EXPECT_TRUE(e.untouched());
    }
}

TYPED_TEST(Event, ATimedWaitIsNeverEarly) {
    expect_never_early<event>();
}
TYPED_TEST(Event, AnInterruptEndsAWait) {
    expect_interrupt_ends_a_wait<TypeParam, event>();
}
TYPED_TEST(Event, MayBeDestroyedByAWaiter) {
    expect_may_be_destroyed_by_a_waiter<TypeParam, event>();
}
TYPED_TEST(AutoResetEvent, ATimedWaitIsNeverEarly) {
    expect_never_early<auto_reset_event>();
}
TYPED_TEST(AutoResetEvent, AnInterruptEndsAWait) {
    expect_interrupt_ends_a_wait<TypeParam, auto_reset_event>();
}
TYPED_TEST(AutoResetEvent, MayBeDestroyedByAWaiter) {
    expect_may_be_destroyed_by_a_waiter<TypeParam, auto_reset_event>();
}

TYPED_TEST(AutoResetEvent, AnAutoResetEventLetsOneGoOn) {
    auto_reset_event e;
    std::atomic<int> last{-1};
    team<TypeParam> many;
    for (int i = 0; i < 3; ++i) {
        many.start_waiting(e, static_cast<std::size_t>(i) + 1, [&, i] {
            EXPECT_EQ(e.wait(), wait_result::notified);
            last.store(i);
        });
    }
    for (int i = 0; i < 3; ++i) {
        e.set();
        while (last.load() != i)  // who has waited longest
            TypeParam::yield();
        EXPECT_EQ(waiters_on(word_of(e)), static_cast<std::size_t>(2 - i));
    }
    EXPECT_FALSE(e.try_wait());
}

TYPED_TEST(AutoResetEvent, ASetIsKeptForOneWhoComesLater) {
    auto_reset_event e;
    EXPECT_FALSE(e.try_wait());
    e.set();
    e.set();
    EXPECT_EQ(e.wait_until(past), wait_result::notified);
    EXPECT_EQ(e.wait_until(past), wait_result::timed_out) << "two set() in a row are one";
    e.set();
    EXPECT_TRUE(e.try_wait());
    EXPECT_TRUE(auto_reset_event(true).try_wait());
}

// One announces work, two look for it; one of these gives up now and then.  None is left lying.
TYPED_TEST(AutoResetEvent, LosesNoSet) {
    constexpr int items = 3000;
    auto_reset_event e;
    std::atomic<int> there{0};
    std::atomic<int> taken{0};
    team<TypeParam> many;
    many.start_together(2, [&](int who) {
        while (taken.load() < items) {
            const wait_result why = who == 0 ? e.wait_for(3us) : e.wait();
            if (why == wait_result::notified) taken.fetch_add(there.exchange(0));
            if (taken.load() == items) e.set();  // so that the other one sees it
        }
    });
    for (int i = 0; i < items; ++i) {
        there.fetch_add(1);
        e.set();
        if (i % 16 == 0) TypeParam::yield();
    }
    many.join();
    EXPECT_EQ(taken.load(), items);
}

}  // namespace
}  // namespace verge::fibers
