// verge/io/append.hpp -- adapts a token: values of your own come after the results.
//
//     timer.async_wait(verge::append(handler, 7));              // handler(error, 7)
//     post(io, verge::append(verge::use_future, 7)).get();      // 7
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_adapter_test.cpp)
//   AppendPutsValuesBehindTheResults      ValuesMayBeMoveOnly
//
// Thread safety and exceptions: those of the operation, and of the values' moves.

#pragma once

#include <verge/io/detail/token_values.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

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

template <class Token, class... Values>
using append_t = detail::io::token_with_values<detail::io::appended, Token, Values...>;

/// The token, whose results are followed by the values.
template <class Token, class... Values>
[[nodiscard]] constexpr auto append(Token&& token, Values&&... values) {
    return detail::io::make_token_with_values<detail::io::appended>(
        std::forward<Token>(token), std::forward<Values>(values)...);
}

}  // namespace verge
