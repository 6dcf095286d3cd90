// verge/io/prepend.hpp -- adapts a token: the handler gets additional values before the results.
//
//     timer.async_wait(verge::prepend(handler, 7));             // handler(7, error)
//
// For a handler that serves several operations, and has to know which one has completed. append
// (verge/io/append.hpp) puts the values last; consign keeps them alive without passing them.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_adapter_test.cpp)
//   PrependPutsValuesBeforeTheResults
//   ValuesMayBeMoveOnly               they are moved into the handler's call.
//   ATokenMayBeUsedAgain              an lvalue token is copied, an rvalue token is moved.
//   WhatBelongsToTheHandlerStays      executor, allocator and slot are those of the inner handler.
//
// Thread safety and exceptions: those of the operation, and of the values' copies and moves.

#pragma once

#include <verge/io/detail/token_values.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// Calls handler(values..., results...).
struct prepended {
    template <class R, class... Results, class... Values>
    static auto signature(R (*)(Results...), std::tuple<Values...>*)
        -> R (*)(Values..., std::decay_t<Results>...);
    template <class Handler, class... Values, class... Results>
    static void call(Handler& handler, std::tuple<Values...>& values, Results&&... results) {
        std::apply(
            [&](Values&... own) {
                std::move(handler)(std::move(own)..., std::forward<Results>(results)...);
            },
            values);
    }
};

}  // namespace detail::io

/// The type that prepend() returns.
template <class Token, class... Values>
using prepend_t = detail::io::token_with_values<detail::io::prepended, Token, Values...>;

/// Adapts `token`: for results R... the inner token sees the signature void(Values..., R...).
/// `values` are stored as std::decay_t of what is given: use std::ref to pass a reference.
template <class Token, class... Values>
[[nodiscard]] constexpr auto prepend(Token&& token, Values&&... values) {
    return detail::io::make_token_with_values<detail::io::prepended>(
        std::forward<Token>(token), std::forward<Values>(values)...);
}

}  // namespace verge
