#include "unit/sync/sync_fixture.hpp"
#include <verge/driver/timer_thread.hpp>
#include <verge/sync/once.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace verge::fibers {
namespace {

VERGE_SYNC_SUITE(Once);

static_assert(sizeof(once_flag) == 4);
[[maybe_unused]] constinit once_flag global_flag;  // needs no code at start

TYPED_TEST(Once, CallsOnce) {
    for (int i = 0; i < 50; ++i) {
        once_flag flag;
        plain_counter counter;
        team<TypeParam> many;
        many.start_together(4, [&](int) {
            call_once(flag, [&] {
                counter.count();
                TypeParam::yield();
            });
            EXPECT_EQ(counter.value, 1) << "everybody returns after it, and sees what it wrote";
        });
    }
}

TYPED_TEST(Once, PassesArguments) {
    once_flag flag;
    int sum = 0;
    call_once(
        flag, [&](int a, std::unique_ptr<int> b) { sum = a + *b; }, 1, std::make_unique<int>(2));
    EXPECT_EQ(sum, 3);
    call_once(flag, [&] { sum = 0; });
    EXPECT_EQ(sum, 3);
}

TYPED_TEST(Once, ThoseWhoComeMeanwhileWait) {
    once_flag flag;
    std::atomic<bool> go{false};
    std::atomic<int> returned{0};
    team<TypeParam> many;
    many.start([&] {
        call_once(flag, [&] {
            while (!go.load())
                TypeParam::yield();
        });
    });
    while (word_of(flag).load() == 0)  // until the first is in it
        TypeParam::yield();
    for (std::size_t n = 1; n <= 3; ++n) {
        many.start_waiting(flag, n, [&] {
            call_once(flag, [] { FAIL() << "a second call"; });
            returned.fetch_add(1);
        });
    }
    EXPECT_EQ(returned.load(), 0);
    go.store(true);
    many.join();
    EXPECT_EQ(returned.load(), 3);
}

TYPED_TEST(Once, AnExceptionLetsTheNextOneTry) {
    once_flag flag;
    EXPECT_THROW(call_once(flag, [] { throw std::runtime_error("first"); }), std::runtime_error);
    EXPECT_THROW(call_once(flag, [] { throw std::logic_error("second"); }), std::logic_error);
    int calls = 0;
    call_once(flag, [&] { ++calls; });
    call_once(flag, [&] { ++calls; });
    EXPECT_EQ(calls, 1);
}

TYPED_TEST(Once, AnExceptionLetsOneOfThoseWhoWaitTry) {
    for (int i = 0; i < 50; ++i) {
        once_flag flag;
        plain_counter tries;
        std::atomic<int> thrown{0};
        team<TypeParam> many;
        many.start_together(4, [&](int) {
            try {
                call_once(flag, [&] {
                    tries.count();
                    TypeParam::yield();
                    if (tries.value < 3) throw std::runtime_error("not yet");
                });
            } catch (const std::runtime_error&) {
                thrown.fetch_add(1);
            }
        });
        many.join();
        EXPECT_EQ(tries.value, 3);
        EXPECT_EQ(thrown.load(), 2);
    }
}

TYPED_TEST(Once, ADeadlineEndsTheWaitForAnothersCall) {
    once_flag flag;
    std::atomic<bool> go{false};
    int calls = 0;
    team<TypeParam> many;
    many.start([&] {
        // Its own call may take as long as it likes.
        EXPECT_TRUE(call_once_until(flag, time_point{}, [&] {
            while (!go.load())
                TypeParam::yield();
            ++calls;
        }));
    });
    while (word_of(flag).load() == 0)
        TypeParam::yield();
    const auto second = [] { FAIL() << "a second call"; };
    EXPECT_FALSE(call_once_for(flag, 1us, second));
    EXPECT_FALSE(call_once_until(flag, time_point{}, second));
    many.start_waiting(flag, 1, [&] {
        EXPECT_TRUE(call_once_until(flag, never, second));
        EXPECT_EQ(calls, 1);
    });
    go.store(true);
    many.join();
    EXPECT_TRUE(call_once_for(flag, 0s, second));
}

TYPED_TEST(Once, AnInterruptDoesNotEndIt) {
    once_flag flag;
    std::atomic<bool> go{false};
    team<TypeParam> many;
    many.start([&] {
        call_once(flag, [&] {
            while (!go.load())
                TypeParam::yield();
        });
    });
    while (word_of(flag).load() == 0)
        TypeParam::yield();
    interrupt(many.start_waiting(flag, 1, [&] {
        call_once(flag, [] {});
        EXPECT_TRUE(go.load());
        const std::atomic<std::uint32_t> word{0};
        EXPECT_EQ(wait(word, 0), wait_result::interrupted) << "it was kept";
    }));
    EXPECT_EQ(waiters_on(word_of(flag)), 1U);
    go.store(true);
}

// A wait that cannot have its timer is an error to its caller, and the flag is as it was.
TEST(OnceInAFiber, SaysSoIfThereIsNoTimer) {
    timer_thread timers;
    timers.stop();
    scheduler fibers({.min_workers = 1, .max_workers = 1, .timers = &timers});
    once_flag flag;
    std::atomic<bool> entered{false};
    std::atomic<bool> go_on{false};
    fiber<> first = fibers.spawn([&] {
        call_once(flag, [&] {
            entered = true;
            while (!go_on)
                this_fiber::yield();
        });
    });
    fibers
        .spawn([&] {
            while (!entered)
                this_fiber::yield();
            EXPECT_THROW(static_cast<void>(call_once_for(flag, 1h, [] { ADD_FAILURE(); })),
                         std::system_error);
        })
        .join();
    go_on = true;
    first.join();
    call_once(flag, [] { ADD_FAILURE() << "it was done"; });
}

}  // namespace
}  // namespace verge::fibers
