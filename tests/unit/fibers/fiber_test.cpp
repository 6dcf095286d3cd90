#include "unit/fibers/fiber_fixture.hpp"

#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace verge::fibers {
namespace {

template <class F>
std::error_code code_of(F&& f) {
    try {
        f();
    } catch (const std::system_error& error) {
        return error.code();
    }
    return {};
}

int seven() {
    return 7;
}

TEST(Fiber, JoinGivesTheValue) {
    scheduler fibers(workers(2));
    EXPECT_EQ(fibers.spawn([] { return 42; }).join(), 42);
    EXPECT_EQ(fibers.spawn(seven).join(), 7);
    EXPECT_EQ(*fibers.spawn([] { return std::make_unique<int>(3); }).join(), 3);
    struct no_default {
        explicit no_default(int v) : value(v) {}
        int value;
    };
    EXPECT_EQ(fibers.spawn([] { return no_default(5); }).join().value, 5);
    EXPECT_EQ(fibers.spawn([](const std::stop_token&) { return 6; }).join(), 6);
    // In a fiber, and after the end.
    EXPECT_EQ(fibers.spawn([&] { return fibers.spawn([] { return 8; }).join() + 1; }).join(), 9);
    fiber<std::string> late = fibers.spawn([] { return std::string(100, 'x'); });
    late.wait();
    EXPECT_TRUE(late.done());
    EXPECT_TRUE(late.joinable());
    EXPECT_EQ(late.join(), std::string(100, 'x'));
    EXPECT_FALSE(late.joinable());
}

int kept_number = 7;
int& the_number() {
    return kept_number;
}

TEST(Fiber, JoinGivesTheReference) {
    scheduler fibers(workers(2));
    fiber<int&> by_function = fibers.spawn(the_number);
    static_assert(std::is_same_v<decltype(by_function.join()), int&>);
    EXPECT_EQ(&by_function.join(), &kept_number);
    EXPECT_FALSE(by_function.joinable());
    // Of what can be neither copied nor moved; const; with a stop_token; from every kind of spawn.
    struct fixed {
        fixed() = default;
        fixed(const fixed&) = delete;
        fixed& operator=(const fixed&) = delete;
    } object;
    const fixed& constant = object;
    volatile int device = 1;
    EXPECT_EQ(&fibers.spawn([&]() -> fixed& { return object; }).join(), &object);
    fiber<const fixed&> second = fibers.spawn(urgent, [&]() -> const fixed& { return constant; });
    EXPECT_EQ(&second.join(), &object);
    fiber<volatile int&> third = fibers.spawn(
        batched, [&](const std::stop_token&) -> volatile int& { return device; });
    fibers.flush();
    EXPECT_EQ(&third.join(), &device);
    // Nothing to refer to.
    EXPECT_THROW(fibers.spawn([&]() -> fixed& { throw std::runtime_error("why"); }).join(),
                 std::runtime_error);
    fiber<fixed&> left = fibers.spawn([&]() -> fixed& {
        this_fiber::exit();
        return object;
    });
    EXPECT_THROW(left.join(), std::bad_optional_access);
}

TEST(Fiber, AValueIsNeitherConstNorVolatile) {
    scheduler fibers(workers(1));
    const auto text = []() -> const std::string { return std::string(100, 'x'); };  // NOLINT
    fiber<std::string> constant = fibers.spawn(text);
    EXPECT_EQ(constant.join(), std::string(100, 'x'));
    // What an rvalue reference refers to is moved out, not referred to.
    auto owned = std::make_unique<int>(5);
    fiber<std::unique_ptr<int>> moved =
        fibers.spawn([&]() -> std::unique_ptr<int>&& { return std::move(owned); });
    moved.wait();
    EXPECT_EQ(owned, nullptr);
    EXPECT_EQ(*moved.join(), 5);
    static_assert(std::is_same_v<detail::fiber_result<int (*)(), const volatile int>, int>);
    static_assert(std::is_same_v<detail::fiber_result<void (*)(), const void>, void>);
}

TEST(Fiber, JoinRethrows) {
    scheduler fibers(workers(2));
    fiber<int> f = fibers.spawn([]() -> int { throw std::runtime_error("why"); });
    EXPECT_THROW(
        {
            try {
                f.join();
            } catch (const std::runtime_error& error) {
                EXPECT_STREQ(error.what(), "why");
                throw;
            }
        },
        std::runtime_error);
    EXPECT_FALSE(f.joinable());
    fibers
        .spawn([&] {
            EXPECT_THROW(fibers.spawn([] { throw 1; }).join(), int);
            EXPECT_THROW(fibers.spawn([] { throw 1; }, {.stack = stack_kind::native}).join(), int);
        })
        .join();
}

TEST(Fiber, JoiningOneThatHasExitedGivesNoValue) {
    scheduler fibers(workers(1));
    fiber<int> f = fibers.spawn([]() -> int { this_fiber::exit(); });
    EXPECT_THROW(f.join(), std::bad_optional_access);
    EXPECT_FALSE(f.joinable());
    fibers.spawn([] { this_fiber::exit(); }).join();
}

TEST(Fiber, ManyMayWaitForTheEnd) {
    scheduler fibers(workers(2));
    door end;
    fiber<int> f = fibers.spawn([&] {
        EXPECT_TRUE(end.wait());
        return 1;
    });
    EXPECT_FALSE(f.wait_until(now()));
    EXPECT_FALSE(f.wait_for(1ms));
    std::atomic<int> returned{0};
    tally waiting;
    std::vector<fiber<>> others;
    for (const stack_kind kind : {stack_kind::normal, stack_kind::small, stack_kind::large}) {
        for (int i = 0; i < 10; ++i) {
            others.push_back(fibers.spawn(
                [&, i] {
                    waiting.add();
                    if (i % 2 == 0) {
                        f.wait();
                    } else {
                        EXPECT_TRUE(f.wait_for(patience));
                    }
                    EXPECT_TRUE(f.done());
                    ++returned;
                },
                {.stack = kind}));
        }
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            waiting.add();
            f.wait();
            ++returned;
        });
    }
    ASSERT_TRUE(waiting.reaches(33));
    EXPECT_EQ(returned, 0);
    end.open();
    for (std::thread& thread : threads)
        thread.join();
    for (fiber<>& other : others)
        other.join();
    EXPECT_EQ(returned, 33);
    EXPECT_EQ(f.join(), 1);
}

TEST(Fiber, AFiberCannotJoinItself) {
    scheduler fibers(workers(1));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        fiber<> self;
        door there;
        self = fibers.spawn(
            [&] {
                EXPECT_TRUE(there.wait());
                const auto deadlock =
                    std::make_error_code(std::errc::resource_deadlock_would_occur);
                EXPECT_EQ(code_of([&] { self.join(); }), deadlock);
                EXPECT_EQ(code_of([&] { self.wait(); }), deadlock);
                EXPECT_EQ(code_of([&] { static_cast<void>(self.wait_until(now())); }), deadlock);
                EXPECT_TRUE(self.joinable());
            },
            {.stack = kind});
        there.open();
        self.join();
    }
}

TEST(Fiber, NoFiberCanBeNeitherJoinedNorHarmed) {
    fiber<int> none;
    EXPECT_FALSE(none.joinable());
    EXPECT_FALSE(none.done());
    EXPECT_FALSE(none.id());
    none.interrupt();
    none.request_stop();
    none.detach();
    EXPECT_FALSE(none.get_stop_token().stop_possible());
    const auto invalid = std::make_error_code(std::errc::invalid_argument);
    EXPECT_EQ(code_of([&] { none.join(); }), invalid);
    EXPECT_EQ(code_of([&] { none.wait(); }), invalid);
    EXPECT_EQ(code_of([&] { static_cast<void>(none.wait_until(never)); }), invalid);
}

TEST(Fiber, AHandleThatIsDestroyedStopsAndJoins) {
    scheduler fibers(workers(1));
    std::atomic<int> alive{0};
    {
        const fiber<> f = fibers.spawn([c = counted(alive)] { this_fiber::sleep_for(1h); });
    }
    EXPECT_EQ(alive, 0);
    // So does one that is given another fiber, and not one that was moved from.
    fiber<> f = fibers.spawn([c = counted(alive)] { this_fiber::sleep_for(1h); });
    fiber<> moved = std::move(f);
    EXPECT_EQ(alive, 1);
    moved = fibers.spawn([] {});
    EXPECT_EQ(alive, 0);
}

TEST(Fiber, WhatLeavesAFiberNobodyJoinedGoesToTheHandler) {
    std::atomic<int> handled{0};
    scheduler fibers(
        {.min_workers = 2, .max_workers = 2, .on_exception = [&](const std::exception_ptr& error) {
             EXPECT_THROW(std::rethrow_exception(error), int);
             ++handled;
         }});
    {
        const fiber<> f = fibers.spawn([] { throw 1; });
    }
    EXPECT_EQ(handled, 1) << "a handle that was destroyed";
    fiber<> late = fibers.spawn([] { throw 2; });
    late.wait();
    EXPECT_EQ(handled, 1);
    late.detach();
    EXPECT_EQ(handled, 2) << "detached after its end";
    door detached;
    fiber<> early = fibers.spawn([&] {
        EXPECT_TRUE(detached.wait());
        throw 3;
    });
    early.detach();
    detached.open();
    ASSERT_TRUE(eventually([&] { return handled == 3; }));
    fibers.execute([] { throw 4; });
    ASSERT_TRUE(eventually([&] { return handled == 4; }));
    EXPECT_THROW(fibers.spawn([] { throw 5; }).join(), int);
    // Whoever of the two comes second reports it: once.
    constexpr int rounds = has_sanitizer ? 2000 : 20'000;
    for (int i = 0; i < rounds; ++i)
        fibers.spawn([] { throw 6; }).detach();
    EXPECT_TRUE(fibers.stop().empty());
    EXPECT_EQ(handled, 4 + rounds);
}

TEST(FiberDeathTest, WithoutAHandlerItEndsTheProgram) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            scheduler fibers(workers(1));
            fibers.spawn([] { throw std::runtime_error("nobody cares"); }).detach();
            static_cast<void>(fibers.stop());
        },
        "nobody cares");
}

TEST(Fiber, AnInterruptIsRemembered) {
    scheduler fibers(workers(1));
    door interrupted;
    fiber<> f = fibers.spawn([&] {
        EXPECT_TRUE(interrupted.wait());
        this_fiber::yield();  // is no wait
        EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::interrupted);
        EXPECT_EQ(this_fiber::sleep_for(1us), sleep_result::elapsed) << "it is consumed";
        const word_type word{0};
        EXPECT_EQ(wait(word, 0, now() + 1us), wait_result::timed_out);
    });
    f.interrupt();
    f.interrupt();  // they do not add up
    interrupted.open();
    f.join();
}

TEST(Fiber, AnInterruptDoesNotEndAJoin) {
    scheduler fibers(workers(1));
    door end;
    fiber<> inner = fibers.spawn([&] { EXPECT_TRUE(end.wait()); });
    fiber<> outer = fibers.spawn([&] {
        inner.join();
        EXPECT_TRUE(end.is_open());
        EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::interrupted)
            << "it waits for a later wait";
    });
    outer.interrupt();
    EXPECT_FALSE(outer.wait_for(1ms));
    end.open();
    outer.join();
}

TEST(Fiber, AStopRequestEndsEveryWait) {
    scheduler fibers(workers(1));
    for (const stack_kind kind : {stack_kind::normal, stack_kind::native}) {
        tally begun;
        fiber<> f = fibers.spawn(
            [&](const std::stop_token& token) {
                const no_unwind here;
                EXPECT_FALSE(this_fiber::stop_requested());
                EXPECT_FALSE(token.stop_requested());
                begun.add();
                EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::stopped);
                EXPECT_TRUE(token.stop_requested());
                EXPECT_TRUE(this_fiber::stop_requested());
                EXPECT_EQ(this_fiber::sleep_for(0s), sleep_result::stopped);
                const word_type word{0};
                EXPECT_EQ(wait(word, 0), wait_result::stopped);
                EXPECT_EQ(wait(word, 0, now() + 1h), wait_result::stopped);
            },
            {.stack = kind});
        ASSERT_TRUE(begun.reaches(1));
        EXPECT_TRUE(f.get_stop_token().stop_possible());
        f.request_stop();
        EXPECT_TRUE(f.get_stop_token().stop_requested());
        f.join();
    }
    EXPECT_FALSE(fibers.spawn([] {}).get_stop_token().stop_possible()) << "it takes none";
}

TEST(Fiber, AStaleIdIsHarmless) {
    scheduler fibers(workers(1));
    scheduler others(workers(1));
    std::unordered_set<fiber_id> seen;
    std::vector<fiber_id> stale;
    for (int i = 0; i < 3000; ++i) {
        fiber<fiber_id> f = fibers.spawn([] { return this_fiber::id(); });
        const fiber_id id = f.id();
        EXPECT_TRUE(id);
        EXPECT_EQ(f.join(), id);
        ASSERT_TRUE(seen.insert(id).second) << "an id comes again";
        stale.push_back(id);
    }
    const fiber<sleep_result> sleeper = fibers.spawn([] { return this_fiber::sleep_for(1h); });
    for (const fiber_id id : stale)
        ASSERT_FALSE(fibers.interrupt(id));
    EXPECT_FALSE(fibers.interrupt(fiber_id{}));
    EXPECT_FALSE(fibers.interrupt(fiber_id(~std::uint64_t{0})));
    EXPECT_FALSE(others.interrupt(sleeper.id())) << "not one of its own";
    EXPECT_FALSE(sleeper.done());
    EXPECT_TRUE(fibers.interrupt(sleeper.id()));
    sleeper.wait();
    EXPECT_FALSE(fibers.interrupt(sleeper.id())) << "over, though its handle is there";
}

TEST(Fiber, AHandleMayOutliveItsScheduler) {
    fiber<std::string> f;
    fiber<> failed;
    {
        scheduler fibers(workers(2));
        f = fibers.spawn([] { return std::string(1000, 'y'); });
        failed = fibers.spawn([] { throw 1; });
    }
    EXPECT_TRUE(f.done());
    f.interrupt();
    f.request_stop();
    EXPECT_EQ(f.join().size(), 1000U);
    EXPECT_THROW(failed.join(), int);
}

TEST(Fiber, CapturesAreDestroyedBeforeTheEndIsSeen) {
    scheduler fibers(workers(2));
    for (int i = 0; i < 1000; ++i) {
        std::atomic<int> alive{0};
        fiber<> f = fibers.spawn([c = counted(alive)] {});
        f.wait();
        ASSERT_EQ(alive, 0);
    }
}

TEST(Fiber, FindsWhatTheJoinedOneWrote) {
    scheduler fibers(workers(2));
    for (int i = 0; i < 1000; ++i) {
        int plain = 0;
        fiber<> f = fibers.spawn([&] { plain = 1; });
        if (i % 2 == 0) {
            f.join();
        } else {
            ASSERT_TRUE(spin_until([&] { return f.done(); }));
        }
        ASSERT_EQ(plain, 1);
    }
}

}  // namespace
}  // namespace verge::fibers
