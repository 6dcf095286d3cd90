#include "unit/io/io_fixture.hpp"
#include <verge/io/as_tuple.hpp>
#include <verge/io/cancel_after.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/detached.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/redirect_error.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/use_future.hpp>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace verge {

// A token of a user: the results are counted.
struct count_token {
    int* completions;
};
template <class... Signatures>
struct async_result<count_token, Signatures...> {
    template <class Initiation, class Token, class... Args>
    static int* initiate(Initiation&& initiation, Token&& token, Args&&... args) {
        int* const to = token.completions;
        std::forward<Initiation>(initiation)([to](auto&&...) { ++*to; },
                                             std::forward<Args>(args)...);
        return to;
    }
};

namespace {

// An operation with results, through the one way there is.
template <class Token>
auto async_divide(io_context& io, int a, int b, Token&& token) {
    return async_initiate<Token, void(std::error_code, int, int)>(
        [&io](auto handler, int x, int y) {
            post(io, [h = std::move(handler), x, y]() mutable {
                if (y == 0) {
                    std::move(h)(std::error_code(error::invalid_argument), 0, 0);
                } else {
                    std::move(h)(std::error_code(), x / y, x % y);
                }
            });
        },
        token, a, b);
}

// Virtual time.
struct game_clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<game_clock>;
    static time_point now() noexcept { return current; }
    static inline time_point current{};
};
struct look_often {
    static game_clock::duration to_wait_duration(const game_clock::duration&) { return {}; }
    static game_clock::duration to_wait_duration(const game_clock::time_point&) { return {}; }
};

class Token : public testing::Test {
protected:
    io_context io;
    steady_timer timer{io};
};

TEST_F(Token, PlainHandlersAreCalled) {
    int quotient = 0;
    async_divide(io, 7, 2, [&, p = std::make_unique<int>(1)](std::error_code error, int q, int r) {
        EXPECT_FALSE(error);
        quotient = q * 10 + r + *p;
    });
    io.run();
    EXPECT_EQ(quotient, 32);
}

TEST_F(Token, DeferredIsTheDefaultAndBeginsNothing) {
    bool called = false;
    {
        auto wait = timer.async_wait();
        EXPECT_EQ(io.poll(), 0U);
        io.restart();
        std::move(wait)([&](std::error_code) { called = true; });
    }
    EXPECT_EQ(io.run(), 1U);
    EXPECT_TRUE(called);
}

TEST_F(Token, DeferredMayBeCopiedAndPiped) {
    int calls = 0;
    const auto divide = async_divide(io, 9, 3, deferred);
    divide([&](std::error_code, int q, int) { calls += q; });
    divide([&](std::error_code, int q, int) { calls += q; });
    async_divide(io, 4, 4, deferred) | [&](std::error_code, int q, int) { calls += q; };
    io.run();
    EXPECT_EQ(calls, 7);
}

TEST_F(Token, DeferredFunctionsMakeOneOperation) {
    int result = 0;
    auto both = async_divide(io, 100, 5, deferred([&](std::error_code, int q, int) {
                                 return async_divide(io, q, 4, deferred);
                             }));
    std::move(both)([&](std::error_code, int q, int) { result = q; });
    io.run();
    EXPECT_EQ(result, 5);
}

TEST_F(Token, DeferredValuesAndConditionsAreOperations) {
    int seen = 0;
    deferred.values(1, std::string("two"))(
        [&](int one, const std::string& two) { seen = one + static_cast<int>(two.size()); });
    EXPECT_EQ(seen, 4);

    const auto or_zero = [this](int a, int b) {
        return deferred([this, a, b](std::error_code) {
            return deferred.when(b != 0)
                .then(async_divide(io, a, b, deferred))
                .otherwise(deferred.values(std::error_code(), 0, 0));
        });
    };
    int quotient = -1;
    const auto note = [&](std::error_code, int q, int) { quotient = q; };
    timer.async_wait(or_zero(7, 2))(note);
    io.run();
    EXPECT_EQ(quotient, 3);
    io.restart();
    const auto wait = timer.async_wait(deferred);
    wait | or_zero(7, 0) | note;  // also of one that is kept
    io.run();
    EXPECT_EQ(quotient, 0);
}

TEST_F(Token, UseFutureGivesResultsAndErrors) {
    std::future<std::tuple<int, int>> good = async_divide(io, 7, 2, use_future);
    std::future<std::tuple<int, int>> bad = async_divide(io, 7, 0, use_future);
    std::future<void> wait = timer.async_wait(use_future);
    std::future<int> value = post([] { return 42; }, io, use_future);
    std::future<void> posted = post(io, use_future);
    timer.expires_after(1h);
    std::future<void> aborted = timer.async_wait(use_future);
    timer.cancel();
    io.run();
    EXPECT_EQ(good.get(), std::tuple(3, 1));
    EXPECT_THROW(bad.get(), std::system_error);
    try {
        aborted.get();
        FAIL();
    } catch (const std::system_error& caught) {
        EXPECT_EQ(caught.code(), error::operation_aborted);
    }
    EXPECT_THROW(wait.get(), std::system_error);  // expires_after ended it
    EXPECT_EQ(value.get(), 42);
    posted.get();
}

TEST_F(Token, ADestroyedOperationBreaksItsPromise) {
    std::future<void> wait;
    {
        io_context own;
        steady_timer far(own, 1h);
        wait = far.async_wait(use_future);
    }
    EXPECT_THROW(wait.get(), std::future_error);
}

TEST_F(Token, DetachedIgnoresEverything) {
    async_divide(io, 7, 0, detached);
    timer.async_wait(detached);
    EXPECT_EQ(io.run(), 2U);
}

TEST_F(Token, AsTupleGivesOneArgument) {
    std::tuple<std::error_code, int, int> seen;
    async_divide(io, 7, 2, as_tuple([&](std::tuple<std::error_code, int, int> r) { seen = r; }));
    auto future = async_divide(io, 7, 0, as_tuple(use_future));
    int alone = 0;
    async_divide(io, 8, 2, as_tuple)([&](auto tuple) { alone = std::get<1>(tuple); });
    io.run();
    EXPECT_EQ(seen, std::tuple(std::error_code(), 3, 1));
    EXPECT_EQ(std::get<0>(future.get()), error::invalid_argument);  // does not throw
    EXPECT_EQ(alone, 4);
}

TEST_F(Token, RedirectErrorFillsAVariable) {
    std::error_code first;
    std::error_code second;
    auto future = async_divide(io, 7, 0, redirect_error(use_future, first));
    int q = 0;
    async_divide(io, 7, 2, redirect_error(second))([&](int quotient, int) { q = quotient; });
    io.run();
    EXPECT_EQ(future.get(), std::tuple(0, 0));
    EXPECT_EQ(first, error::invalid_argument);
    EXPECT_FALSE(second);
    EXPECT_EQ(q, 3);
}

TEST_F(Token, AUsersTokenWorks) {
    int completions = 0;
    EXPECT_EQ(timer.async_wait(count_token{&completions}), &completions);
    async_divide(io, 1, 1, count_token{&completions});
    io.run();
    EXPECT_EQ(completions, 2);
}

TEST_F(Token, BoundTokensBindTheHandler) {
    io_context home;
    std::future<void> done = timer.async_wait(bind_executor(home, use_future));
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(done.wait_for(0s), std::future_status::timeout);
    EXPECT_EQ(home.run(), 1U);
    done.get();
}

TEST_F(Token, AdaptersKeepWhatBelongsToTheHandler) {
    io_context home;
    allocation_count count;
    std::error_code error;
    bool called = false;
    timer.async_wait(redirect_error(
        bind_executor(home, bind_allocator(counting_allocator<int>(count), [&] { called = true; })),
        error));
    EXPECT_EQ(count.live, 1);
    io.run();
    EXPECT_FALSE(called);
    home.run();
    EXPECT_TRUE(called);
    EXPECT_EQ(count.live, 0);
}

TEST_F(Token, CancelAfterEndsASlowOperation) {
    timer.expires_after(1h);
    std::error_code error;
    timer.async_wait(cancel_after(1ms, [&](std::error_code e) { error = e; }));
    io.run();
    EXPECT_EQ(error, error::operation_aborted);
}

TEST_F(Token, CancelAfterLeavesAQuickOne) {
    timer.expires_after(1ms);
    int calls = 0;
    const time_point before = now();
    timer.async_wait(cancel_after(1h, [&](std::error_code e) {
        EXPECT_FALSE(e);
        ++calls;
    }));
    std::future<void> done = timer.async_wait(cancel_after(1h, use_future));
    timer.async_wait(cancel_after(1h))([&](std::error_code) { ++calls; });
    io.run();
    EXPECT_EQ(calls, 2);
    done.get();
    EXPECT_LT(now(), before + 1h);
}

TEST_F(Token, CancelAtTakesATime) {
    timer.expires_after(1h);
    std::error_code error;
    timer.async_wait(cancel_at(now() + 1ms, as_tuple([&](std::tuple<std::error_code> result) {
                                   error = std::get<0>(result);
                               })));
    io.run();
    EXPECT_EQ(error, error::operation_aborted);
}

// An operation that only says how it was cancelled.
struct initiate_be_cancelled {
    using executor_type = io_context::executor_type;
    [[nodiscard]] executor_type get_executor() const noexcept { return io->get_executor(); }
    template <class Handler>
    void operator()(Handler handler) const {
        auto slot = get_associated_cancellation_slot(handler);
        auto own = std::make_shared<Handler>(std::move(handler));
        slot.assign([io = io, own, guard = make_work_guard(*io)](cancellation_type type) {
            post(*io, [own, type] { std::move (*own)(error::operation_aborted, type); });
        });
    }
    io_context* io;
};
template <class Token>
auto async_be_cancelled(io_context& io, Token&& token) {
    return async_initiate<Token, void(std::error_code, cancellation_type)>(
        initiate_be_cancelled{&io}, token);
}

TEST_F(Token, CancelAfterTakesACancellationType) {
    steady_timer given(io);
    const auto soon = now() + 1ms;
    std::vector<cancellation_type> types;
    const auto note = [&](std::error_code, cancellation_type type) { types.push_back(type); };
    constexpr auto partial = cancellation_type::partial;
    constexpr auto total = cancellation_type::total;
    const auto check = [&](auto&& token, cancellation_type expected) {
        types.clear();
        io.restart();
        if constexpr (std::is_same_v<decltype(async_be_cancelled(io, std::move(token))), void>) {
            async_be_cancelled(io, std::move(token));
        } else {
            async_be_cancelled(io, std::move(token))(note);  // deferred
        }
        io.run();
        EXPECT_EQ(types, std::vector{expected});
    };
    check(cancel_after(1ms, note), cancellation_type::terminal);
    check(cancel_after(1ms, partial, note), partial);
    check(cancel_after(1ms, total), total);
    check(cancel_after(1ms, total)(note), total);
    check(cancel_at(soon, note), cancellation_type::terminal);
    check(cancel_at(soon, partial, note), partial);
    check(cancel_at(soon, total), total);
    check(cancel_at(soon, total)(note), total);
    check(cancel_at(std::chrono::system_clock::now() + 1ms, partial, note), partial);
    check(cancel_after(given, 1ms, note), cancellation_type::terminal);
    check(cancel_after(given, 1ms, partial, note), partial);
    check(cancel_after(given, 1ms), cancellation_type::terminal);
    check(cancel_after(given, 1ms, total)(note), total);
    check(cancel_at(given, soon, note), cancellation_type::terminal);
    check(cancel_at(given, soon, partial, note), partial);
    check(cancel_at(given, soon, total), total);
    check(cancel_at(given, soon, total)(note), total);
}

TEST_F(Token, AGivenTimerIsSetAndCancelled) {
    steady_timer given(io, time_point::max());
    bool ended = false;
    given.async_wait([&](std::error_code) { ended = true; });
    timer.expires_after(0ms);
    timer.async_wait(cancel_after(given, 1h, [](std::error_code e) { EXPECT_FALSE(e); }));
    EXPECT_LT(given.expiry(), now() + 2h);  // a new expiry, which ended the wait before
    EXPECT_EQ(io.run(), 3U);
    EXPECT_TRUE(ended);
    EXPECT_EQ(given.cancel(), 0U);
}

TEST_F(Token, TheTimeOfADeferredOperationRunsFromItsLaunch) {
    game_clock::current = {};
    basic_waitable_timer<game_clock, look_often> given(io);
    timer.expires_after(1h);
    auto wait = timer.async_wait(cancel_after(given, 1s));
    game_clock::current += 1h;
    std::error_code error;
    std::move(wait)([&](std::error_code e) { error = e; });
    EXPECT_EQ(given.expiry(), game_clock::current + 1s);
    EXPECT_EQ(io.poll(), 0U);
    game_clock::current += 1s;
    io.run();
    EXPECT_EQ(error, error::operation_aborted);
    // One that never ends takes no time at all.
    timer.expires_after(0ms);
    io.restart();
    timer.async_wait(
        cancel_after(std::chrono::hours::max(), [&](std::error_code e) { error = e; }));
    io.run();
    EXPECT_FALSE(error);
}

TEST_F(Token, AnOperationThatThrowsLeavesNoTimeLimitBehind) {
    const auto refuse = [](auto&& token) {
        return async_initiate<decltype(token), void(std::error_code)>(
            [](auto) { throw std::bad_alloc(); }, token);
    };
    EXPECT_THROW(refuse(cancel_after(timer, 1h, [](std::error_code) { FAIL(); })), std::bad_alloc);
    EXPECT_EQ(io.run(), 1U);  // the timer's own handler, which says nothing
}

// What adapts a token says where the operation is, so that a time limit inside finds it.
TEST_F(Token, AdaptersKeepTheExecutorOfTheOperation) {
    timer.expires_after(1h);
    int aborted = 0;
    const auto note = [&](std::error_code e) { aborted += e == error::operation_aborted ? 1 : 0; };
    timer.async_wait(as_tuple(
        cancel_after(1ms, [&](std::tuple<std::error_code> result) { note(std::get<0>(result)); })));
    timer.async_wait(bind_executor(make_strand(io), cancel_after(1ms, note)));
    timer.async_wait(bind_allocator(std::allocator<char>(), cancel_after(1ms, note)));
    timer.async_wait(cancel_after(1h, cancel_after(1ms, note)));
    timer.async_wait(cancel_after(1ms, cancel_after(1h, note)));
    std::error_code redirected;
    timer.async_wait(redirect_error(cancel_after(1ms, [&] { note(redirected); }), redirected));
    steady_timer soon(io);
    int timed_out = 0;
    const auto late = [&](std::error_code e) { timed_out += e == error::timed_out ? 1 : 0; };
    with_timeout(timer.async_wait(bind_executor(io, deferred)), 1ms)(late);
    with_timeout(timer.async_wait(deferred([&](std::error_code) { return soon.async_wait(); })),
                 1ms)(late);
    with_timeout(timer.async_wait(cancel_after(1h)), 1ms)(late);
    io.run();
    EXPECT_EQ(aborted, 6);
    EXPECT_EQ(timed_out, 2);  // the second wait of the pair was in time
}

TEST_F(Token, AReferenceToAHandlerHasWhatThatHas) {
    timer.expires_after(1h);
    cancellation_signal signal;
    allocation_count count;
    std::error_code error;
    auto handler = bind_cancellation_slot(
        signal.slot(),
        bind_allocator(counting_allocator<char>(count), [&](std::error_code e) { error = e; }));
    timer.async_wait(std::ref(handler));
    EXPECT_EQ(count.live, 1);
    EXPECT_TRUE(signal.slot().has_handler());
    signal.emit(cancellation_type::total);
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(error, error::operation_aborted);
    EXPECT_EQ(count.live, 0);
}

TEST_F(Token, AnOuterSlotStillWorks) {
    timer.expires_after(1h);
    cancellation_signal signal;
    std::error_code error;
    timer.async_wait(cancel_after(
        1h, bind_cancellation_slot(signal.slot(), [&](std::error_code e) { error = e; })));
    EXPECT_EQ(io.poll(), 0U);
    signal.emit(cancellation_type::terminal);
    io.run();
    EXPECT_EQ(error, error::operation_aborted);
}

TEST_F(Token, WithTimeoutSaysThatItTimedOut) {
    timer.expires_after(1h);
    std::error_code slow;
    with_timeout(timer.async_wait(), 1ms)([&](std::error_code e) { slow = e; });
    io.run();
    EXPECT_EQ(slow, error::timed_out);

    io.restart();
    timer.expires_after(1h);
    std::error_code cancelled;
    with_timeout(timer.async_wait(deferred), 1h)([&](std::error_code e) { cancelled = e; });
    timer.cancel();
    io.run();
    EXPECT_EQ(cancelled, error::operation_aborted);

    io.restart();
    timer.expires_after(0ms);
    std::future<void> quick = with_timeout(timer.async_wait(), 1h) | use_future;
    io.run();
    quick.get();
}

TEST_F(Token, ALimitedOperationIsDestroyedWithTheContext) {
    std::atomic<int> alive = 0;
    {
        io_context own;
        auto far = std::make_shared<steady_timer>(own, 1h);
        far->async_wait(cancel_after(1h, [far, c = counted(alive)](std::error_code) { FAIL(); }));
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
}

// ---- signals and slots --------------------------------------------------------------------------

TEST(Cancellation, ASlotHoldsOneHandler) {
    cancellation_signal signal;
    int calls = 0;
    signal.emit(cancellation_type::all);  // nobody listens
    cancellation_slot slot = signal.slot();
    EXPECT_TRUE(slot.is_connected());
    EXPECT_FALSE(cancellation_slot().is_connected());
    std::atomic<int> alive = 0;
    slot.assign([&, c = std::make_shared<counted>(alive)](cancellation_type) { ++calls; });
    slot.assign([&, c = std::make_shared<counted>(alive)](cancellation_type type) {
        calls += type == cancellation_type::partial ? 10 : 100;
    });
    EXPECT_EQ(alive, 1);
    signal.emit(cancellation_type::partial);
    slot.clear();
    EXPECT_EQ(alive, 0);
    signal.emit(cancellation_type::partial);
    EXPECT_EQ(calls, 10);
}

// The slot keeps what it tells, and that keeps the inner handler.
TEST(Cancellation, AStateMayEndBeforeItsSlot) {
    cancellation_signal outer;
    cancellation_type seen = cancellation_type::none;
    std::atomic<int> alive = 0;
    {
        const cancellation_state state(outer.slot());
        state.slot().assign(
            [&, c = std::make_shared<counted>(alive)](cancellation_type type) { seen = type; });
    }
    outer.emit(cancellation_type::terminal);
    EXPECT_EQ(seen, cancellation_type::terminal);
    EXPECT_EQ(alive, 1);
    outer.slot().clear();
    EXPECT_EQ(alive, 0);
}

TEST(Cancellation, AStateHasAFilterEachWay) {
    cancellation_signal outer;
    const cancellation_state state(outer.slot(), enable_total_cancellation(),
                                   enable_terminal_cancellation());
    cancellation_type seen = cancellation_type::none;
    state.slot().assign([&](cancellation_type type) { seen = type; });
    outer.emit(cancellation_type::total);
    EXPECT_EQ(state.cancelled(), cancellation_type::total);  // remembered
    EXPECT_EQ(seen, cancellation_type::none);                // and not passed on
    outer.emit(cancellation_type::terminal);
    EXPECT_EQ(seen, cancellation_type::terminal);
}

TEST(Cancellation, AStateFiltersAndRemembers) {
    cancellation_signal outer;
    cancellation_state state(outer.slot(), enable_partial_cancellation());
    cancellation_type seen = cancellation_type::none;
    state.slot().assign([&](cancellation_type type) { seen = type; });
    outer.emit(cancellation_type::total);
    EXPECT_EQ(seen, cancellation_type::none);
    EXPECT_EQ(state.cancelled(), cancellation_type::none);
    outer.emit(cancellation_type::terminal);
    EXPECT_EQ(seen, cancellation_type::terminal);
    EXPECT_EQ(state.cancelled(), cancellation_type::terminal);
    state.clear();
    EXPECT_EQ(state.cancelled(), cancellation_type::none);
    EXPECT_FALSE(cancellation_state().slot().is_connected());
}

TEST(Cancellation, ASignalMayEndBeforeTheOperation) {
    int calls = 0;
    std::atomic<int> alive = 0;
    {
        io_context io;
        steady_timer timer(io, 1h);
        {
            cancellation_signal signal;
            timer.async_wait(bind_cancellation_slot(
                signal.slot(),
                [&, c = std::make_shared<counted>(alive)](std::error_code) { ++calls; }));
        }
        EXPECT_EQ(alive, 1) << "the operation goes on";
        // The handler would clear a slot that is gone: a handler outlives its signal nowhere but
        // here, at the end of the context, which does not call it.
    }
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(calls, 0);
}

TEST(Error, CodesAreThoseOfTheSystem) {
    const std::error_code aborted = error::operation_aborted;
    EXPECT_EQ(aborted, std::errc::operation_canceled);
    EXPECT_EQ(std::error_code(error::timed_out), std::errc::timed_out);
    EXPECT_NE(std::error_code(error::eof), std::error_code(error::not_found));
    EXPECT_EQ(std::error_code(error::eof).message(), "End of file");
    EXPECT_EQ(std::error_code(error::already_connected), std::errc::already_connected);
    EXPECT_NE(std::error_code(error::already_open), std::errc::already_connected);
    EXPECT_EQ(std::error_code(error::already_open).message(), "Already open");
    EXPECT_EQ(std::error_code(error::no_memory), std::errc::not_enough_memory);
    EXPECT_EQ(std::error_code(error::network_unreachable), std::errc::network_unreachable);
}

TEST(UseFuture, OfAFunctionGivesWhatItReturns) {
    io_context io;
    steady_timer timer(io, 0ms);
    std::future<int> value =
        timer.async_wait(use_future([](std::error_code e) { return e ? 1 : 2; }));
    std::future<void> nothing = timer.async_wait(use_future([](std::error_code) {}));
    std::future<int> thrown =
        timer.async_wait(use_future([](std::error_code) -> int { throw std::runtime_error("x"); }));
    io.run();
    EXPECT_EQ(value.get(), 2);
    EXPECT_NO_THROW(nothing.get());
    EXPECT_THROW(thrown.get(), std::runtime_error);
}

TEST(UseFuture, OfAFunctionGetsTheErrorToo) {
    io_context io;
    steady_timer timer(io, 1h);
    auto only_moved = std::make_unique<int>(7);
    std::future<int> value = timer.async_wait(
        use_future([own = std::move(only_moved)](std::error_code e) { return e ? *own : 0; }));
    timer.cancel();
    io.run();
    EXPECT_EQ(value.get(), 7);
}

}  // namespace
}  // namespace verge
