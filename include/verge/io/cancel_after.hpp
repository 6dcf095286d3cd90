// verge/io/cancel_after.hpp -- ends an operation that takes too long.
//
//     socket.async_read_some(buffer, verge::cancel_after(5s, handler));
//     socket.async_read_some(buffer, verge::cancel_at(deadline, verge::use_future));
//     timer.async_wait(verge::cancel_after(5s))(handler);      // alone: with the default token
//
//     verge::with_timeout(socket.async_read_some(buffer), 5s)(handler);     //
//     examples/echo_server.cpp
//
// cancel_after and cancel_at, as in Asio, leave the operation's own result: operation_aborted if
// the time ran out.  with_timeout tells the two apart: error::timed_out if it was the time,
// operation_aborted if somebody else cancelled it.
//
// The operation must support cancellation through a slot.  It has completed when the handler is
// called: what it referred to is free.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   CancelAfterEndsASlowOperation     CancelAfterLeavesAQuickOne      CancelAtTakesATime
//   AnOuterSlotStillWorks             WithTimeoutSaysThatItTimedOut
//
// Thread safety: the handler's executor must not run two functions at once: a strand, or a loop
// with one thread.  Exceptions: those of the operation; std::bad_alloc.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/cancellation.hpp>
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

namespace detail {

/// What an operation with a time limit and its timer share.
template <class Handler, class Executor, class... Results>
struct timed_state {
    timed_state(Handler&& h, const Executor& ex, time_point limit)
        : handler(std::move(h)), timer(ex, limit) {}

    void finish_one() {
        if (--pending != 0) return;
        // Both have ended, and only this refers to the state.
        Handler own(std::move(handler));
        std::tuple<Results...> given(std::move(*results));
        verge::get_associated_cancellation_slot(own).clear();
        std::apply([&](Results&... values) { std::move(own)(std::move(values)...); }, given);
    }

    Handler handler;
    typename steady_timer::rebind_executor<Executor>::other timer;
    cancellation_signal signal;
    std::optional<std::tuple<Results...>> results;
    int pending = 2;
    bool distinct = false;  // with_timeout: its own error
    bool timed_out = false;
};

/// Handlers of the two halves: on the executor of the user's handler.
template <class State, class Handler>
struct timed_half {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return state->handler; }
    std::shared_ptr<State> state;
};
template <class State, class Handler>
struct limit_handler : timed_half<State, Handler> {
    using cancellation_slot_type = cancellation_slot;
    [[nodiscard]] cancellation_slot get_cancellation_slot() const noexcept { return {}; }
    void operator()(std::error_code error) {
        const auto own = std::move(this->state);
        if (!error && !own->results) {
            own->timed_out = true;
            own->signal.emit(cancellation_type::terminal);
        }
        own->finish_one();
    }
};
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

template <class Initiation>
auto initiation_executor(const Initiation& initiation) {
    return verge::get_associated_executor(initiation);
}

template <class... Results>
struct timed_initiation {
    time_point limit;
    bool distinct;

    template <class Handler, class Initiation, class... Args>
    void operator()(Handler&& handler, Initiation&& initiation, Args&&... args) const {
        using handler_type = std::decay_t<Handler>;
        const auto ex = initiation_executor(initiation);
        using executor = std::decay_t<decltype(ex)>;
        using state_type = timed_state<handler_type, executor, Results...>;
        auto state =
            std::make_shared<state_type>(handler_type(std::forward<Handler>(handler)), ex, limit);
        state->distinct = distinct;
        auto outer = verge::get_associated_cancellation_slot(state->handler);
        if (outer.is_connected()) {
            // Until both halves have ended, when the slot is cleared.
            outer.assign([to = std::weak_ptr<state_type>(state)](cancellation_type type) {
                if (const auto there = to.lock()) there->signal.emit(type);
            });
        }
        limit_handler<state_type, handler_type> at_limit;
        at_limit.state = state;
        limited_handler<state_type, handler_type> at_end;
        at_end.state = state;
        state->timer.async_wait(std::move(at_limit));
        std::forward<Initiation>(initiation)(std::move(at_end), std::forward<Args>(args)...);
    }
};

}  // namespace detail

template <class Token>
struct cancel_at_t {
    Token token;
    time_point limit;
};

template <class Token>
struct cancel_after_t {
    Token token;
    duration limit;
};

/// A token that ends the operation after a while.
template <class Rep, class Period, class Token = deferred_t>
[[nodiscard]] auto cancel_after(const std::chrono::duration<Rep, Period>& limit,
                                Token&& token = Token()) {
    return cancel_after_t<std::decay_t<Token>>{std::forward<Token>(token),
                                               std::chrono::ceil<duration>(limit)};
}
/// A token that ends the operation at a time of the steady clock.
template <class Duration, class Token = deferred_t>
[[nodiscard]] auto cancel_at(const std::chrono::time_point<clock, Duration>& limit,
                             Token&& token = Token()) {
    return cancel_at_t<std::decay_t<Token>>{std::forward<Token>(token),
                                            std::chrono::ceil<duration>(limit)};
}

template <class Token, class R, class... Results>
struct async_result<cancel_at_t<Token>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return async_result<Token, R(Results...)>::initiate(
            detail::timed_initiation<std::decay_t<Results>...>{token.limit, false},
            detail::forward_inner<Raw>(token.token), std::forward<Initiation>(initiation),
            std::forward<Args>(args)...);
    }
};
template <class Token, class R, class... Results>
struct async_result<cancel_after_t<Token>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        const time_point limit = deadline_after(detail::upper_now(), token.limit);
        return async_result<Token, R(Results...)>::initiate(
            detail::timed_initiation<std::decay_t<Results>...>{limit, false},
            detail::forward_inner<Raw>(token.token), std::forward<Initiation>(initiation),
            std::forward<Args>(args)...);
    }
};

namespace detail {

template <class Operation, class Executor>
struct begin_operation {
    using executor_type = Executor;
    [[nodiscard]] executor_type get_executor() const noexcept { return ex; }
    template <class Handler>
    void operator()(Handler&& handler) {
        std::move (*operation)(std::forward<Handler>(handler));
    }
    Operation* operation;
    Executor ex;
};

/// Begins a deferred operation when it begins itself: the time runs from then.
template <class Operation, class R, class... Results>
struct timeout_initiation {
    Operation operation;
    duration limit;

    [[nodiscard]] auto get_executor() const noexcept { return operation.get_executor(); }
    using executor_type = decltype(std::declval<const Operation&>().get_executor());

    template <class Handler>
    void operator()(Handler&& handler) {
        const time_point at = deadline_after(detail::upper_now(), limit);
        timed_initiation<std::decay_t<Results>...>{at, true}(
            std::forward<Handler>(handler),
            begin_operation<Operation, executor_type>{&operation, operation.get_executor()});
    }
};

}  // namespace detail

/// The operation with a time limit, as a deferred operation: call it with a token.  Completes with
/// error::timed_out if the time ran out first.
template <class Rep, class Period, class R, class... Results, class Initiation, class... Args>
[[nodiscard]] auto with_timeout(
    deferred_async_operation<R(std::error_code, Results...), Initiation, Args...> operation,
    const std::chrono::duration<Rep, Period>& limit) {
    using inner = deferred_async_operation<R(std::error_code, Results...), Initiation, Args...>;
    using initiation = detail::timeout_initiation<inner, R, std::error_code, Results...>;
    return deferred_async_operation<R(std::error_code, Results...), initiation>(
        std::in_place, initiation{std::move(operation), std::chrono::ceil<duration>(limit)});
}

}  // namespace verge
