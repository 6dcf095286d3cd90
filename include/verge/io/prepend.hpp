// verge/io/prepend.hpp -- adapts a token: values of your own come before the results.
//
//     timer.async_wait(verge::prepend(handler, 7));             // handler(7, error)
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_adapter_test.cpp)
//   PrependPutsValuesBeforeTheResults     ValuesMayBeMoveOnly
//
// Thread safety and exceptions: those of the operation, and of the values' moves.

#pragma once

#include <verge/io/detail/token_values.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

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

template <class Token, class... Values>
using prepend_t = detail::io::token_with_values<detail::io::prepended, Token, Values...>;

/// The token, whose results come after the values.
template <class Token, class... Values>
[[nodiscard]] constexpr auto prepend(Token&& token, Values&&... values) {
    return detail::io::make_token_with_values<detail::io::prepended>(
        std::forward<Token>(token), std::forward<Values>(values)...);
}

}  // namespace verge
