// verge/io/deferred.hpp -- the token that packages an operation to be started later: the default.
//
//     auto wait = timer.async_wait(verge::deferred);     // or timer.async_wait(): nothing begins
//     std::move(wait)([](std::error_code error) { ... });  // it begins now
//     timer.async_wait() | verge::use_future;              // the same, with another token
//
// deferred(f) chains: f(results...) returns a deferred operation, and the two together are one
// deferred operation. deferred.values(...) is an operation that has its results already, and
// deferred.when(condition).then(a).otherwise(b) one of two.
//
//     auto twice = timer.async_wait(verge::deferred([&](std::error_code) {
//         return timer.async_wait(verge::deferred);
//     }));
//
// In a chain each operation has the executor, the allocator and the slot of the final handler.  An
// error is a result like any other: f decides whether to continue.
//
// A deferred operation refers to its timer or socket, which must outlive it.  One that is never
// launched does nothing.  with_timeout (verge/io/cancel_after.hpp) takes one.  Not for a loop of
// operations: async_compose (verge/io/compose.hpp) is for that.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   DeferredIsTheDefaultAndBeginsNothing     DeferredMayBeCopiedAndPiped
//   DeferredFunctionsMakeOneOperation        DeferredValuesAndConditionsAreOperations
//
// Thread safety and exceptions: those of the operation, when it is launched.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

/// An operation that has not begun: call it with a token.  It holds the initiation and copies of
/// its arguments.  An rvalue is consumed by the call; an lvalue is copied, if it can be, and may be
/// called again.
template <class Signature, class Initiation, class... Args>
class deferred_async_operation {
public:
    using signature = Signature;

    /// Packages an initiation with its arguments.  For tokens and operations.
    template <class I, class... As>
    explicit deferred_async_operation(std::in_place_t, I&& initiation, As&&... args)
        : initiation_(std::forward<I>(initiation)), args_(std::forward<As>(args)...) {}

    /// Begins the operation, and returns what the token returns.
    template <class Token>
    decltype(auto) operator()(Token&& token) && {
        return std::apply(
            [&](Args&... args) -> decltype(auto) {
                return async_initiate<Token, Signature>(std::move(initiation_), token,
                                                        std::move(args)...);
            },
            args_);
    }
    /// The same for a copy of this.
    template <class Token>
    decltype(auto) operator()(Token&& token) const& {
        return deferred_async_operation(*this)(std::forward<Token>(token));
    }

    /// The executor of the operation, if its initiation has one.
    [[nodiscard]] auto get_executor() const noexcept requires requires(const Initiation& i) {
        i.get_executor();
    }
    { return initiation_.get_executor(); }

    /// operation | token: begins it with that token.
    template <class Token>
    friend decltype(auto) operator|(deferred_async_operation operation, Token&& token) {
        return std::move(operation)(std::forward<Token>(token));
    }

private:
    Initiation initiation_;
    std::tuple<Args...> args_;
};

namespace detail::io {

/// The token that deferred(f) returns.
template <class F>
struct deferred_function {
    F f;
};

/// Calls f with the results, and begins the operation that it returns.
template <class F, class Handler>
struct then_handler {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }
    template <class... Results>
    void operator()(Results&&... results) {
        std::move(f)(std::forward<Results>(results)...)(std::move(handler));
    }
    F f;
    Handler handler;
};

/// Begins the first operation, with the second one in its handler.
template <class Initiation, class F>
struct then_initiation : adapted_initiation<Initiation> {
    F f;
    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) {
        std::move(this->initiation)(
            then_handler<F, std::decay_t<Handler>>{std::move(f), std::forward<Handler>(handler)},
            std::forward<Args>(args)...);
    }
};

/// Completes at once with the values it was given.
struct values_initiation {
    template <class Handler, class... Values>
    void operator()(Handler&& handler, Values&&... values) const {
        std::decay_t<Handler> own(std::forward<Handler>(handler));
        std::move(own)(std::forward<Values>(values)...);
    }
};

/// Begins one of two operations, which give the same results.
template <class Then, class Otherwise>
struct either_initiation {
    bool first;
    Then then;
    Otherwise otherwise;
    template <class Handler>
    void operator()(Handler&& handler) {
        if (first) {
            std::move(then)(std::forward<Handler>(handler));
        } else {
            std::move(otherwise)(std::forward<Handler>(handler));
        }
    }
};
/// when(condition).then(a): waits for otherwise(b).
template <class Then>
struct deferred_then {
    bool first;
    Then then;
    template <class Otherwise>
    [[nodiscard]] auto otherwise(Otherwise other) && {
        using signature = typename Then::signature;
        static_assert(std::is_same_v<signature, typename Otherwise::signature>);
        using initiation = either_initiation<Then, Otherwise>;
        return deferred_async_operation<signature, initiation>(
            std::in_place, initiation{first, std::move(then), std::move(other)});
    }
};
/// when(condition): waits for then(a).
struct deferred_when {
    bool first;
    template <class Then>
    [[nodiscard]] auto then(Then begun) const {
        return deferred_then<Then>{first, std::move(begun)};
    }
};

/// The signature of the operation that f(results...) returns.
template <class F, class Signature>
struct next_signature;
template <class F, class R, class... Results>
struct next_signature<F, R(Results...)> {
    using type = typename std::decay_t<std::invoke_result_t<F&&, Results...>>::signature;
};

}  // namespace detail::io

/// The type of verge::deferred.  As a token it returns a deferred_async_operation.
struct deferred_t : detail::io::may_be_default<deferred_t> {
    constexpr deferred_t() noexcept = default;
    /// A token that continues with the operation that f(results...) returns.  The whole is
    /// deferred.
    template <class F>
    constexpr auto operator()(F&& f) const {
        return detail::io::deferred_function<std::decay_t<F>>{std::forward<F>(f)};
    }
    /// An operation that completes with these values.  It calls the handler inside the launch, so
    /// it is for the end of a chain.
    template <class... Values>
    [[nodiscard]] static constexpr auto values(Values&&... values) {
        return deferred_async_operation<void(std::decay_t<Values>...),
                                        detail::io::values_initiation, std::decay_t<Values>...>(
            std::in_place, detail::io::values_initiation{}, std::forward<Values>(values)...);
    }
    /// when(condition).then(a).otherwise(b): the deferred operation `a` or `b`, which must have one
    /// signature.
    [[nodiscard]] static constexpr auto when(bool condition) noexcept {
        return detail::io::deferred_when{condition};
    }
};
/// The token.
inline constexpr deferred_t deferred{};

// Packages the initiation; begins nothing.
template <class Signature>
struct async_result<deferred_t, Signature> {
    template <class Initiation, class Raw, class... Args>
    static auto initiate(Initiation&& initiation, Raw&&, Args&&... args) {
        return deferred_async_operation<Signature, std::decay_t<Initiation>, std::decay_t<Args>...>(
            std::in_place, std::forward<Initiation>(initiation), std::forward<Args>(args)...);
    }
};

// Packages the initiation with the function that continues it.
template <class F, class Signature>
struct async_result<detail::io::deferred_function<F>, Signature> {
    template <class Initiation, class Raw, class... Args>
    static auto initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        using signature = typename detail::io::next_signature<F, Signature>::type;
        using then = detail::io::then_initiation<std::decay_t<Initiation>, F>;
        return deferred_async_operation<signature, then, std::decay_t<Args>...>(
            std::in_place,
            then{{std::forward<Initiation>(initiation)}, detail::io::forward_inner<Raw>(token.f)},
            std::forward<Args>(args)...);
    }
};

}  // namespace verge
