// verge/io/post.hpp -- gives a function to an executor: post, dispatch, defer.
//
//     verge::post(io, [] { ... });          // later: examples/loop_timer.cpp
//     verge::dispatch(strand, [] { ... });  // inside this call if this thread is in the strand
//     verge::defer(io, [] { ... });         // later, as the continuation of the present handler
//     verge::post(compute, pool, [](int result) { ... });   // compute() on pool, then its result
//                                           // (dispatch and defer likewise)
//
// The first argument is a context or an executor; without it, the handler's associated executor.
// Without a token the executor's default one is used: post(io) is a deferred operation.
//
// If the handler has an associated executor of its own, the function goes to the given executor,
// and from there the handler is dispatched to its own; both executors have outstanding work until
// then.
//
// Which one: post, unless there is a reason.  dispatch saves a turn through the queue, but may run
// the function inside the call, with the caller's locks held.  defer saves a lock and a wake-up:
// inside a handler the function stays in a queue of the calling thread until that handler returns,
// and is available to all threads of the loop then.  Not for a delay: steady_timer.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/executor_test.cpp)
//   AHandlerIsCalledOnItsOwnExecutor      AHandlersExecutorHasWorkMeanwhile
//   WithoutAnExecutorItGoesToTheHandlers
//   AResultIsPassedOn                     DispatchAndDeferPassAResultOnToo
// and (tests/unit/io/io_context_test.cpp)
//   PostNeverNests      DispatchNestsInside      DeferRunsLater
//
// Thread safety: any thread.  What the functions do at the same time is up to the executor: a loop
// that one thread runs and a strand run one at a time.
//
// Exceptions: std::bad_alloc, and what the handler's move throws; then nothing was posted.
// dispatch also throws what the function throws, if it runs inside the call.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/detail/bound_handler.hpp>
#include <verge/io/execution.hpp>

#include <functional>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// Which of the three functions.
enum class submission { post, dispatch, defer };

/// The executor with the properties of post, dispatch or defer.
template <submission How, class Executor>
auto submitting(const Executor& ex) {
    if constexpr (How == submission::dispatch) {
        return ex;  // unchanged: blocking.never is respected
    } else if constexpr (How == submission::post) {
        return verge::prefer(verge::prefer(ex, execution::blocking.never),
                             execution::relationship.fork);
    } else {
        return verge::prefer(verge::prefer(ex, execution::blocking.never),
                             execution::relationship.continuation);
    }
}

/// Executes `f`, with memory from its associated allocator.
template <submission How, class Executor, class F>
void submit(const Executor& ex, F&& f) {
    auto allocator = verge::get_associated_allocator(f);
    verge::prefer(submitting<How>(ex), execution::allocator(allocator)).execute(std::forward<F>(f));
}

/// The initiation of post(ex, token): `ex` is where the function goes, and where the handler is
/// called if it has no executor of its own.
template <submission How, class Executor>
struct submit_initiation {
    using executor_type = Executor;
    [[nodiscard]] executor_type get_executor() const noexcept { return ex; }
    Executor ex;

    template <class Handler>
    void operator()(Handler&& handler) const {
        using type = std::decay_t<Handler>;
        if constexpr (std::is_same_v<associated_executor_t<type, Executor>, Executor>) {
            const Executor own = verge::get_associated_executor(handler, ex);
            if (own == ex) {
                submit<How>(ex, std::forward<Handler>(handler));
                return;
            }
        }
        submit<How>(ex, on_own_executor<type, Executor>(std::forward<Handler>(handler), ex));
    }
};

/// The initiation of post(token): the handler has an executor.
template <submission How>
struct submit_to_own_initiation {
    template <class Handler>
    void operator()(Handler&& handler) const {
        const auto ex = verge::get_associated_executor(handler);
        submit<How>(ex, std::forward<Handler>(handler));
    }
};

/// Calls f(), then the handler with its result.  If f() throws, the handler is not called.
template <class F, class Handler>
struct call_then {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }

    void operator()() {
        if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
            std::invoke(f);
            std::move(handler)();
        } else {
            std::move(handler)(std::invoke(f));
        }
    }
    F f;
    Handler handler;
};

/// The initiation of post(f, ex, token): f() runs on `ex`, the handler on its own executor.
template <submission How, class Executor>
struct submit_call_initiation {
    using executor_type = Executor;
    [[nodiscard]] executor_type get_executor() const noexcept { return ex; }
    Executor ex;

    template <class Handler, class F>
    void operator()(Handler&& handler, F&& f) const {
        using type = std::decay_t<Handler>;
        using bound = on_own_executor<type, Executor>;
        submit<How>(ex, call_then<std::decay_t<F>, bound>{
                            std::forward<F>(f), bound(std::forward<Handler>(handler), ex)});
    }
};

template <class F>
concept function_to_submit = std::is_invocable_v < std::decay_t<F>
& > ;

/// A token, and neither an executor nor a context.
template <class T>
concept only_a_token =
    !execution::executor<std::decay_t<T>> && !context_with_executor<std::remove_cvref_t<T>>;

/// The signature of a handler for a result of type R.
template <class R>
struct result_signature {
    using type = void(std::decay_t<R>);
};
template <>
struct result_signature<void> {
    using type = void();
};

template <submission How, class F, class Executor, class Token>
decltype(auto) submit_call(F&& f, const Executor& ex, Token&& token) {
    using result = std::invoke_result_t<std::decay_t<F>&>;
    return async_initiate<Token, typename result_signature<result>::type>(
        submit_call_initiation<How, Executor>{ex}, token, std::forward<F>(f));
}

}  // namespace detail::io

/// Runs the handler, void(), later: never before this call returns.
template <class Executor, class Token = default_completion_token_t<Executor>>
requires execution::executor<Executor>
decltype(auto) post(const Executor& ex, Token&& token = Token()) {
    return async_initiate<Token, void()>(
        detail::io::submit_initiation<detail::io::submission::post, Executor>{ex}, token);
}
/// The same, on the executor of a context.
template <detail::io::context_with_executor Context,
          class Token = default_completion_token_t<typename Context::executor_type>>
decltype(auto) post(Context& context, Token&& token = Token()) {
    return verge::post(context.get_executor(), std::forward<Token>(token));
}
/// The same, on the handler's associated executor.
template <detail::io::only_a_token Token>
decltype(auto) post(Token&& token) {
    return async_initiate<Token, void()>(
        detail::io::submit_to_own_initiation<detail::io::submission::post>{}, token);
}
/// Calls f() on `ex`, then the handler with its result: void(R), or void().  If f() throws, the
/// exception leaves the executor's run function, and the handler is destroyed without a call.
template <detail::io::function_to_submit F, execution::executor Executor, class Token>
decltype(auto) post(F&& f, const Executor& ex, Token&& token) {
    return detail::io::submit_call<detail::io::submission::post>(std::forward<F>(f), ex,
                                                                 std::forward<Token>(token));
}
template <detail::io::function_to_submit F, detail::io::context_with_executor Context, class Token>
decltype(auto) post(F&& f, Context& context, Token&& token) {
    return verge::post(std::forward<F>(f), context.get_executor(), std::forward<Token>(token));
}
/// Runs the handler, void(): inside this call if the executor allows it (blocking.possibly, and the
/// calling thread runs the loop or the strand), or else later.
template <class Executor, class Token = default_completion_token_t<Executor>>
requires execution::executor<Executor>
decltype(auto) dispatch(const Executor& ex, Token&& token = Token()) {
    return async_initiate<Token, void()>(
        detail::io::submit_initiation<detail::io::submission::dispatch, Executor>{ex}, token);
}
/// The same, on the executor of a context.
template <detail::io::context_with_executor Context,
          class Token = default_completion_token_t<typename Context::executor_type>>
decltype(auto) dispatch(Context& context, Token&& token = Token()) {
    return verge::dispatch(context.get_executor(), std::forward<Token>(token));
}
/// The same, on the handler's associated executor.
template <detail::io::only_a_token Token>
decltype(auto) dispatch(Token&& token) {
    return async_initiate<Token, void()>(
        detail::io::submit_to_own_initiation<detail::io::submission::dispatch>{}, token);
}
/// Calls f() on `ex`, then the handler with its result: void(R), or void().  If f() throws, the
/// exception leaves the executor's run function, and the handler is destroyed without a call.
template <detail::io::function_to_submit F, execution::executor Executor, class Token>
decltype(auto) dispatch(F&& f, const Executor& ex, Token&& token) {
    return detail::io::submit_call<detail::io::submission::dispatch>(std::forward<F>(f), ex,
                                                                     std::forward<Token>(token));
}
template <detail::io::function_to_submit F, detail::io::context_with_executor Context, class Token>
decltype(auto) dispatch(F&& f, Context& context, Token&& token) {
    return verge::dispatch(std::forward<F>(f), context.get_executor(), std::forward<Token>(token));
}

/// Runs the handler, void(), later, as the continuation of the handler that calls this: no thread
/// is woken for it before that handler returns.  Outside the loop the same as post.
template <class Executor, class Token = default_completion_token_t<Executor>>
requires execution::executor<Executor>
decltype(auto) defer(const Executor& ex, Token&& token = Token()) {
    return async_initiate<Token, void()>(
        detail::io::submit_initiation<detail::io::submission::defer, Executor>{ex}, token);
}
/// The same, on the executor of a context.
template <detail::io::context_with_executor Context,
          class Token = default_completion_token_t<typename Context::executor_type>>
decltype(auto) defer(Context& context, Token&& token = Token()) {
    return verge::defer(context.get_executor(), std::forward<Token>(token));
}
/// The same, on the handler's associated executor.
template <detail::io::only_a_token Token>
decltype(auto) defer(Token&& token) {
    return async_initiate<Token, void()>(
        detail::io::submit_to_own_initiation<detail::io::submission::defer>{}, token);
}
/// Calls f() on `ex`, then the handler with its result: void(R), or void().  If f() throws, the
/// exception leaves the executor's run function, and the handler is destroyed without a call.
template <detail::io::function_to_submit F, execution::executor Executor, class Token>
decltype(auto) defer(F&& f, const Executor& ex, Token&& token) {
    return detail::io::submit_call<detail::io::submission::defer>(std::forward<F>(f), ex,
                                                                  std::forward<Token>(token));
}
template <detail::io::function_to_submit F, detail::io::context_with_executor Context, class Token>
decltype(auto) defer(F&& f, Context& context, Token&& token) {
    return verge::defer(std::forward<F>(f), context.get_executor(), std::forward<Token>(token));
}

}  // namespace verge
