// verge/io/consign.hpp -- adapts a token: the handler keeps values alive, and is not given them.
//
//     auto timer = std::make_unique<verge::steady_timer>(io, 1s);
//     auto& wait = *timer;
//     wait.async_wait(verge::consign(handler, std::move(timer)));   // lives until it has returned
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_adapter_test.cpp)
//   ConsignKeepsValuesUntilTheHandlerHasReturned      ValuesMayBeMoveOnly
//
// Thread safety and exceptions: those of the operation, and of the values' moves.

#pragma once

#include <verge/io/detail/token_values.hpp>

#include <tuple>
#include <utility>

namespace verge {

namespace detail::io {

struct consigned {
    template <class R, class... Results, class... Values>
    static auto signature(R (*)(Results...), std::tuple<Values...>*) -> R (*)(Results...);
    template <class Handler, class... Values, class... Results>
    static void call(Handler& handler, std::tuple<Values...>&, Results&&... results) {
        std::move(handler)(std::forward<Results>(results)...);
    }
};

}  // namespace detail::io

template <class Token, class... Values>
using consign_t = detail::io::token_with_values<detail::io::consigned, Token, Values...>;

/// The token, whose handler owns the values as well.
template <class Token, class... Values>
[[nodiscard]] constexpr auto consign(Token&& token, Values&&... values) {
    return detail::io::make_token_with_values<detail::io::consigned>(
        std::forward<Token>(token), std::forward<Values>(values)...);
}

}  // namespace verge
