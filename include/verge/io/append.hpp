// verge/io/append.hpp -- adapts a token: the handler gets additional values after the results.
//
//     timer.async_wait(verge::append(handler, 7));              // handler(error, 7)
//     post(io, verge::append(verge::use_future, 7)).get();      // 7
//
// For a handler that serves several operations, and has to know which one has completed. prepend
// (verge/io/prepend.hpp) puts the values first; consign keeps them alive without passing them.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_adapter_test.cpp)
//   AppendPutsValuesBehindTheResults
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

/// Calls handler(results..., values...).
struct appended {
    template <class R, class... Results, class... Values>
    static auto signature(R (*)(Results...), std::tuple<Values...>*)
        -> R (*)(std::decay_t<Results>..., Values...);
    template <class Handler, class... Values, class... Results>
    static void call(Handler& handler, std::tuple<Values...>& values, Results&&... results) {
        std::apply(
            [&](Values&... own) {
                std::move(handler)(std::forward<Results>(results)..., std::move(own)...);
            },
            values);
    }
};

}  // namespace detail::io

/// The type that append() returns.
template <class Token, class... Values>
using append_t = detail::io::token_with_values<detail::io::appended, Token, Values...>;

/// Adapts `token`: for results R... the inner token sees the signature void(R..., Values...).
/// `values` are stored as std::decay_t of what is given: use std::ref to pass a reference.
template <class Token, class... Values>
[[nodiscard]] constexpr auto append(Token&& token, Values&&... values) {
    return detail::io::make_token_with_values<detail::io::appended>(
        std::forward<Token>(token), std::forward<Values>(values)...);
}

}  // namespace verge
