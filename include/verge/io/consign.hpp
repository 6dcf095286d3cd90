// verge/io/consign.hpp -- adapts a token: the handler keeps values alive, and is not given them.
//
//     auto timer = std::make_unique<verge::steady_timer>(io, 1s);
//     auto& wait = *timer;
//     wait.async_wait(verge::consign(handler, std::move(timer)));   // lives until it has returned
//
// For the object or the buffer that an operation refers to.  Where the handler needs the values,
// use append or prepend.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_adapter_test.cpp)
//   ConsignKeepsValuesUntilTheHandlerHasReturned
//   ValuesMayBeMoveOnly
//   ATokenMayBeUsedAgain              an lvalue token is copied, an rvalue token is moved.
//   WhatBelongsToTheHandlerStays      executor, allocator and slot are those of the inner handler.
//
// Thread safety and exceptions: those of the operation, and of the values' copies and moves.  The
// values are destroyed on the thread that runs the handler, or on the one that destroys the
// operation.

#pragma once

#include <verge/io/detail/token_values.hpp>

#include <tuple>
#include <utility>

namespace verge {

namespace detail::io {

/// Calls handler(results...).
struct consigned {
    template <class R, class... Results, class... Values>
    static auto signature(R (*)(Results...), std::tuple<Values...>*) -> R (*)(Results...);
    template <class Handler, class... Values, class... Results>
    static void call(Handler& handler, std::tuple<Values...>&, Results&&... results) {
        std::move(handler)(std::forward<Results>(results)...);
    }
};

}  // namespace detail::io

/// The type that consign() returns.
template <class Token, class... Values>
using consign_t = detail::io::token_with_values<detail::io::consigned, Token, Values...>;

/// Adapts `token`: its handler owns `values`, and destroys them after it has returned or when it is
/// destroyed without a call.  The results are unchanged.
template <class Token, class... Values>
[[nodiscard]] constexpr auto consign(Token&& token, Values&&... values) {
    return detail::io::make_token_with_values<detail::io::consigned>(
        std::forward<Token>(token), std::forward<Values>(values)...);
}

}  // namespace verge
