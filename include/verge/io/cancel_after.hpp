// verge/io/cancel_after.hpp -- ends an operation that takes too long.
//
//     socket.async_read_some(buffer, verge::cancel_after(5s, handler));
//     socket.async_read_some(buffer, verge::cancel_at(deadline, verge::use_future));
//     timer.async_wait(verge::cancel_after(5s))(handler);      // alone: with the default token
//     socket.async_read_some(buffer, verge::cancel_after(5s, cancellation_type::total, handler));
//     socket.async_read_some(buffer, verge::cancel_after(timer, 5s, handler));  // by that timer
//
//     // examples/echo_server.cpp
//     verge::with_timeout(socket.async_read_some(buffer), 5s)(handler);
//
// cancel_after and cancel_at, as in Asio, leave the operation's own result: operation_aborted if
// the limit was reached.  with_timeout distinguishes the two: error::timed_out if the limit was
// reached, operation_aborted if the operation was cancelled in another way.  A result that arrives
// although the limit was reached is passed on, not lost.
//
// The operation must support cancellation through a slot; one that does not ends in its own time.
// It has completed when the handler is called: nothing refers to its buffers any more.  Each
// limited operation allocates the state that it shares with its timer.
//
// Not for a deadline that covers several operations, unless they are one composed operation
// (verge/io/compose.hpp).
//
// How it works: the operation and a wait of the timer share one state.  The one that ends first
// cancels the other: the timer emits a cancellation signal to the operation, the operation cancels
// the timer.  The second one to end calls the handler.  So the handler runs when neither is
// pending.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   CancelAfterEndsASlowOperation     CancelAfterLeavesAQuickOne      CancelAtTakesATime
//   CancelAfterTakesACancellationType AGivenTimerIsSetAndCancelled
//   TheTimeOfADeferredOperationRunsFromItsLaunch
//   AnOuterSlotStillWorks             WithTimeoutSaysThatItTimedOut
//   AnOperationThatThrowsLeavesNoTimeLimitBehind
//
// A given timer must outlive the operation.  Setting its expiry ends its other waits, and so does
// the end of the operation.
//
// Thread safety: the operation and its timer complete on the executor of the handler, which must
// not run two functions at once: a strand, or a loop that one thread runs.
//
// Exceptions: those of the operation; std::bad_alloc.  Then the handler is not called.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/error.hpp>
#include <verge/io/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// The limit of an operation, with a timer that is made for it.
template <class Clock, class Traits, class Time>
struct own_timer_limit {
    template <class Executor>
    using timer_type = basic_waitable_timer<Clock, Traits, Executor>;
    template <class Executor>
    [[nodiscard]] timer_type<Executor> timer(const Executor& ex) const {
        return timer_type<Executor>(ex);
    }
    Time time;  // a duration or a time point of the clock
    cancellation_type type = cancellation_type::terminal;
};
/// The limit of an operation, with a timer of the caller.
template <class Timer, class Time>
struct given_timer_limit {
    template <class>
    using timer_type = Timer&;
    template <class Executor>
    [[nodiscard]] Timer& timer(const Executor&) const noexcept {
        return *given;
    }
    Timer* given;
    Time time;
    cancellation_type type = cancellation_type::terminal;
};
/// Sets the timer to the limit: a delay from now, or a time.
template <class Timer>
void set_limit(Timer& timer, const typename Timer::duration& limit) {
    timer.expires_after(limit);
}
template <class Timer>
void set_limit(Timer& timer, const typename Timer::time_point& limit) {
    timer.expires_at(limit);
}

/// What an operation with a limit and the wait of its timer share.  The handler is called when both
/// have ended, so nothing is pending behind it.
template <class Handler, class Timer, class... Results>
struct timed_state {
    template <class Limit, class Executor>
    timed_state(Handler&& h, const Limit& limit, const Executor& ex)
        : handler(std::move(h)), timer(limit.timer(ex)), type(limit.type) {}

    /// One of the two has ended.  The second one calls the user's handler, with the results.
    void finish_one() {
        if (--pending != 0) return;
        // Both have ended: this is the last reference to the state.
        Handler own(std::move(handler));
        std::tuple<Results...> given(std::move(*results));
        verge::get_associated_cancellation_slot(own).clear();
        std::apply([&](Results&... values) { std::move(own)(std::move(values)...); }, given);
    }

    Handler handler;
    Timer timer;
    const cancellation_type type;
    cancellation_signal signal;                     // cancels the operation
    std::optional<std::tuple<Results...>> results;  // set: the operation has completed
    int pending = 2;         // the operation and the wait; changed on the handler's executor only
    bool distinct = false;   // with_timeout: reports error::timed_out
    bool timed_out = false;  // the timer has expired before the operation completed
};

/// The common base of the two handlers: both have the executor and the allocator of the user's
/// handler.
template <class State, class Handler>
struct timed_half {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return state->handler; }
    std::shared_ptr<State> state;
};
/// The timer has expired, or was cancelled because the operation has completed.
template <class State, class Handler>
struct limit_handler : timed_half<State, Handler> {
    using cancellation_slot_type = cancellation_slot;
    [[nodiscard]] cancellation_slot get_cancellation_slot() const noexcept { return {}; }
    void operator()(std::error_code error) {
        const auto own = std::move(this->state);
        if (!error && !own->results) {
            own->timed_out = true;
            own->signal.emit(own->type);
        }
        own->finish_one();
    }
};
/// The operation has completed: keeps its results, and cancels the timer.
template <class State, class Handler>
struct limited_handler : timed_half<State, Handler> {
    using cancellation_slot_type = cancellation_slot;
    [[nodiscard]] cancellation_slot get_cancellation_slot() const noexcept {
        return this->state->signal.slot();
    }
    template <class... Values>
    void operator()(Values&&... values) {
        const auto own = std::move(this->state);
        own->results.emplace(std::forward<Values>(values)...);
        using first = std::tuple_element_t<0, std::tuple<std::decay_t<Values>..., void*>>;
        if constexpr (std::is_same_v<first, std::error_code>) {
            std::error_code& error = std::get<0>(*own->results);
            if (own->distinct && own->timed_out && error == error::operation_aborted) {
                error = error::timed_out;
            }
        }
        own->timer.cancel();
        own->finish_one();
    }
};

/// Begins the timer, then the operation: the limit counts from here, also for a deferred operation.
template <class Initiation, class Limit, class... Results>
struct timed_initiation : adapted_initiation<Initiation> {
    Limit limit;
    bool distinct;

    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) {
        using handler_type = std::decay_t<Handler>;
        const auto ex = verge::get_associated_executor(this->initiation);
        using timer_type = typename Limit::template timer_type<std::decay_t<decltype(ex)>>;
        using state_type = timed_state<handler_type, timer_type, Results...>;
        auto state =
            std::make_shared<state_type>(handler_type(std::forward<Handler>(handler)), limit, ex);
        state->distinct = distinct;
        auto outer = verge::get_associated_cancellation_slot(state->handler);
        if (outer.is_connected()) {
            // Valid until both halves have ended: finish_one() clears the slot.
            outer.assign([to = std::weak_ptr<state_type>(state)](cancellation_type type) {
                if (const auto there = to.lock()) there->signal.emit(type);
            });
        }
        limit_handler<state_type, handler_type> at_limit;
        at_limit.state = state;
        limited_handler<state_type, handler_type> at_end;
        at_end.state = state;
        set_limit(state->timer, limit.time);
        state->timer.async_wait(std::move(at_limit));
        try {
            std::move(this->initiation)(std::move(at_end), std::forward<Args>(args)...);
        } catch (...) {
            state->timer.cancel();  // `pending` stays at 1: the user's handler is not called
            throw;
        }
    }
};

}  // namespace detail::io

/// A token with a limit: what cancel_after() and cancel_at() return for a token.
template <class Token, class Limit>
struct limited_token {
    Token token;
    Limit limit;
};
/// A limit without a token: call it with one, or give it to an operation, whose default token it
/// adapts.
template <class Limit>
struct partial_limit {
    Limit limit;
    template <class Token>
    [[nodiscard]] auto operator()(Token&& token) const {
        return limited_token<std::decay_t<Token>, Limit>{std::forward<Token>(token), limit};
    }
};
template <class Limit>
partial_limit(Limit) -> partial_limit<Limit>;

namespace detail::io {

/// Separates cancel_after(limit, type) from cancel_after(limit, token).
template <class T>
concept not_a_cancellation_type = !std::is_same_v<std::decay_t<T>, cancellation_type>;

/// The limits of the three forms.  Durations and times are rounded up to the timer's unit: never
/// early.
template <class Rep, class Period>
auto limit_after(const std::chrono::duration<Rep, Period>& time, cancellation_type type) {
    return own_timer_limit<clock, wait_traits<clock>, duration>{saturated_to<duration>(time), type};
}
template <class Clock, class Duration>
auto limit_at(const std::chrono::time_point<Clock, Duration>& time, cancellation_type type) {
    using own = typename Clock::time_point;
    return own_timer_limit<Clock, wait_traits<Clock>, own>{
        std::chrono::ceil<typename own::duration>(time), type};
}
template <class Clock, class Traits, class Executor, class Time>
auto limit_by(basic_waitable_timer<Clock, Traits, Executor>& timer, const Time& time,
              cancellation_type type) {
    return given_timer_limit<basic_waitable_timer<Clock, Traits, Executor>, Time>{&timer, time,
                                                                                  type};
}

}  // namespace detail::io

/// A token that cancels the operation when `limit` has passed on the steady clock since it began.
/// `type` is the kind of cancellation that is emitted.  Without a token the result adapts the
/// operation's default one.  A limit of 0 or less is reached at once.
template <class Rep, class Period>
[[nodiscard]] auto cancel_after(const std::chrono::duration<Rep, Period>& limit,
                                cancellation_type type = cancellation_type::terminal) {
    return partial_limit{detail::io::limit_after(limit, type)};
}
/// The same with a token, by terminal cancellation.
template <class Rep, class Period, detail::io::not_a_cancellation_type Token>
[[nodiscard]] auto cancel_after(const std::chrono::duration<Rep, Period>& limit, Token&& token) {
    return cancel_after(limit)(std::forward<Token>(token));
}
/// The same with a token, by cancellation of that type.
template <class Rep, class Period, class Token>
[[nodiscard]] auto cancel_after(const std::chrono::duration<Rep, Period>& limit,
                                cancellation_type type, Token&& token) {
    return cancel_after(limit, type)(std::forward<Token>(token));
}

/// The same with a timer of the caller, and its clock.  The timer is set when the operation begins.
template <class Clock, class Traits, class Executor, class Rep, class Period>
[[nodiscard]] auto cancel_after(basic_waitable_timer<Clock, Traits, Executor>& timer,
                                const std::chrono::duration<Rep, Period>& limit,
                                cancellation_type type = cancellation_type::terminal) {
    return partial_limit{
        detail::io::limit_by(timer, saturated_to<typename Clock::duration>(limit), type)};
}
/// The same with a token, by terminal cancellation.
template <class Clock, class Traits, class Executor, class Rep, class Period,
          detail::io::not_a_cancellation_type Token>
[[nodiscard]] auto cancel_after(basic_waitable_timer<Clock, Traits, Executor>& timer,
                                const std::chrono::duration<Rep, Period>& limit, Token&& token) {
    return cancel_after(timer, limit)(std::forward<Token>(token));
}
/// The same with a token, by cancellation of that type.
template <class Clock, class Traits, class Executor, class Rep, class Period, class Token>
[[nodiscard]] auto cancel_after(basic_waitable_timer<Clock, Traits, Executor>& timer,
                                const std::chrono::duration<Rep, Period>& limit,
                                cancellation_type type, Token&& token) {
    return cancel_after(timer, limit, type)(std::forward<Token>(token));
}

/// A token that cancels the operation at a time of a clock; the operation makes a timer of that
/// clock.
template <class Clock, class Duration>
[[nodiscard]] auto cancel_at(const std::chrono::time_point<Clock, Duration>& limit,
                             cancellation_type type = cancellation_type::terminal) {
    return partial_limit{detail::io::limit_at(limit, type)};
}
/// The same with a token, by terminal cancellation.
template <class Clock, class Duration, detail::io::not_a_cancellation_type Token>
[[nodiscard]] auto cancel_at(const std::chrono::time_point<Clock, Duration>& limit, Token&& token) {
    return cancel_at(limit)(std::forward<Token>(token));
}
/// The same with a token, by cancellation of that type.
template <class Clock, class Duration, class Token>
[[nodiscard]] auto cancel_at(const std::chrono::time_point<Clock, Duration>& limit,
                             cancellation_type type, Token&& token) {
    return cancel_at(limit, type)(std::forward<Token>(token));
}

/// The same with a timer of the caller.
template <class Clock, class Traits, class Executor>
[[nodiscard]] auto cancel_at(basic_waitable_timer<Clock, Traits, Executor>& timer,
                             const typename Clock::time_point& limit,
                             cancellation_type type = cancellation_type::terminal) {
    return partial_limit{detail::io::limit_by(timer, limit, type)};
}
/// The same with a token, by terminal cancellation.
template <class Clock, class Traits, class Executor, detail::io::not_a_cancellation_type Token>
[[nodiscard]] auto cancel_at(basic_waitable_timer<Clock, Traits, Executor>& timer,
                             const typename Clock::time_point& limit, Token&& token) {
    return cancel_at(timer, limit)(std::forward<Token>(token));
}
/// The same with a token, by cancellation of that type.
template <class Clock, class Traits, class Executor, class Token>
[[nodiscard]] auto cancel_at(basic_waitable_timer<Clock, Traits, Executor>& timer,
                             const typename Clock::time_point& limit, cancellation_type type,
                             Token&& token) {
    return cancel_at(timer, limit, type)(std::forward<Token>(token));
}

// Begins the operation with the inner token, through timed_initiation.
template <class Token, class Limit, class R, class... Results>
struct async_result<limited_token<Token, Limit>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return async_result<Token, R(Results...)>::initiate(
            detail::io::timed_initiation<std::decay_t<Initiation>, Limit, std::decay_t<Results>...>{
                {std::forward<Initiation>(initiation)}, token.limit, false},
            detail::io::forward_inner<Raw>(token.token), std::forward<Args>(args)...);
    }
};
// The same with the default token of the operation.
template <class Limit, class R, class... Results>
struct async_result<partial_limit<Limit>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        using inner = detail::io::default_token_of_initiation_t<Initiation>;
        return async_result<limited_token<inner, Limit>, R(Results...)>::initiate(
            std::forward<Initiation>(initiation), token(inner()), std::forward<Args>(args)...);
    }
};

namespace detail::io {

/// A deferred operation as an initiation: launches it.
template <class Operation>
struct launch {
    using executor_type = decltype(std::declval<const Operation&>().get_executor());
    [[nodiscard]] executor_type get_executor() const noexcept { return operation.get_executor(); }
    template <class Handler>
    void operator()(Handler&& handler) {
        std::move(operation)(std::forward<Handler>(handler));
    }
    Operation operation;
};

}  // namespace detail::io

/// `operation` with a limit, as a deferred operation: call it with a token to begin it.  Completes
/// with error::timed_out if the limit was reached and the operation ended with operation_aborted;
/// with the operation's own results in every other case.  The first result of `operation` must be
/// an error_code.
template <class Rep, class Period, class R, class... Results, class Initiation, class... Args>
[[nodiscard]] auto with_timeout(
    deferred_async_operation<R(std::error_code, Results...), Initiation, Args...> operation,
    const std::chrono::duration<Rep, Period>& limit) {
    using inner = deferred_async_operation<R(std::error_code, Results...), Initiation, Args...>;
    const auto own = detail::io::limit_after(limit, cancellation_type::terminal);
    using initiation =
        detail::io::timed_initiation<detail::io::launch<inner>, std::decay_t<decltype(own)>,
                                     std::error_code, std::decay_t<Results>...>;
    return deferred_async_operation<R(std::error_code, Results...), initiation>(
        std::in_place, initiation{{detail::io::launch<inner>{std::move(operation)}}, own, true});
}

}  // namespace verge
