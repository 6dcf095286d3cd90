// verge/io/async_result.hpp -- how an asynchronous operation meets a completion token.
//
//     template <class Token>
//     auto async_answer(int question, Token&& token) {
//         return verge::async_initiate<Token, void(std::error_code, int)>(
//             [](auto handler, int q) { ... handler({}, 42); }, token, question);
//     }
//
// A token decides how the result is delivered.  A plain function is called with it; other tokens
// are types with a specialisation of async_result: verge/io/deferred.hpp, use_future.hpp,
// detached.hpp, or your own.  Its `initiate(initiation, token, args...)` makes a handler, calls
// initiation(handler, args...), and returns what the operation is to return.
//
// For authors of operations and of tokens.  An operation that is made of others is easier to write
// with async_compose (verge/io/compose.hpp).
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   PlainHandlersAreCalled
//   AUsersTokenWorks                       a specialisation of async_result is all that it needs.
//   AdaptersKeepTheExecutorOfTheOperation
// tests/unit/io/every_token_test.cpp runs every operation with every token.
//
// Thread safety and exceptions: those of the operation.

#pragma once

#include <type_traits>
#include <utility>

namespace verge {

/// What a token does with an operation of the given signature.  The primary template is the plain
/// case: the token is the handler.  Specialise it for a token of your own.
template <class Token, class... Signatures>
struct async_result {
    /// Calls initiation(handler, args...), now or later, and returns what the operation returns to
    /// its caller.  `Raw` is Token, with the reference and const of the argument.
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return std::forward<Initiation>(initiation)(std::forward<Raw>(token),
                                                    std::forward<Args>(args)...);
    }
};

/// Begins an operation of the given signature: calls async_result's initiate() for the token.  What
/// it returns is up to the token: nothing for a plain handler, a future for use_future.
template <class Token, class... Signatures, class Initiation, class... Args>
decltype(auto) async_initiate(Initiation&& initiation, std::remove_reference_t<Token>& token,
                              Args&&... args) {
    return async_result<std::decay_t<Token>, Signatures...>::initiate(
        std::forward<Initiation>(initiation), static_cast<Token&&>(token),
        std::forward<Args>(args)...);
}

namespace detail::io {

/// As std::forward_like: an rvalue token gives up what it wraps.
template <class Outer, class Inner>
constexpr decltype(auto) forward_inner(Inner& inner) noexcept {
    if constexpr (std::is_lvalue_reference_v<Outer>) {
        return inner;
    } else {
        return std::move(inner);
    }
}

/// The base of an initiation that adapts another one: it has the executor of that one, if that one
/// has an executor.
template <class Initiation>
struct adapted_initiation {
    Initiation initiation;
};
template <class Initiation>
requires requires(const Initiation& i) {
    typename Initiation::executor_type;
    i.get_executor();
}
struct adapted_initiation<Initiation> {
    using executor_type = typename Initiation::executor_type;
    [[nodiscard]] executor_type get_executor() const noexcept { return initiation.get_executor(); }
    Initiation initiation;
};

/// Is called with the inner token's handler: wraps it, and begins the operation with the result.
template <class Initiation, class Wrap>
struct wrapped_initiation : adapted_initiation<Initiation> {
    Wrap wrap;

    template <class Handler, class... Args>
    decltype(auto) operator()(Handler&& handler, Args&&... args) {
        return std::move(this->initiation)(std::move(wrap)(std::forward<Handler>(handler)),
                                           std::forward<Args>(args)...);
    }
};

/// For tokens that adapt another one: begins with the inner token, and wraps the handler that it
/// makes.
template <class Inner, class... Signatures, class Initiation, class Raw, class Wrap, class... Args>
decltype(auto) initiate_wrapped(Initiation&& initiation, Raw&& token, Wrap&& wrap, Args&&... args) {
    return async_result<Inner, Signatures...>::initiate(
        wrapped_initiation<std::decay_t<Initiation>, std::decay_t<Wrap>>{
            {std::forward<Initiation>(initiation)}, std::forward<Wrap>(wrap)},
        std::forward<Raw>(token), std::forward<Args>(args)...);
}

}  // namespace detail::io

}  // namespace verge
