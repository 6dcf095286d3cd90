// verge/io/consign.hpp -- adapts a token: the handler keeps values alive, and is not given them.
//
//     auto timer = std::make_unique<verge::steady_timer>(io, 1s);
//     auto& wait = *timer;
//     wait.async_wait(verge::consign(handler, std::move(timer)));   // until the handler has
//     returned
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_adapter_test.cpp)
//   ConsignKeepsValuesUntilTheHandlerHasReturned      ValuesMayBeMoveOnly
//
// Thread safety and exceptions: those of the operation, and of the values' moves.

#pragma once

#include <verge/io/async_result.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

template <class Token, class... Values>
struct consign_t {
    Token token;
    std::tuple<Values...> values;
};

/// The token, whose handler owns the values as well.
template <class Token, class... Values>
[[nodiscard]] constexpr auto consign(Token&& token, Values&&... values) {
    return consign_t<std::decay_t<Token>, std::decay_t<Values>...>{
        std::forward<Token>(token),
        std::tuple<std::decay_t<Values>...>(std::forward<Values>(values)...)};
}

namespace detail {

template <class Handler, class... Values>
struct consign_handler {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }
    template <class... Results>
    void operator()(Results&&... results) {
        std::move(handler)(std::forward<Results>(results)...);
    }
    Handler handler;
    std::tuple<Values...> values;
};

}  // namespace detail

template <class Token, class... Values, class R, class... Results>
struct async_result<consign_t<Token, Values...>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return detail::initiate_wrapped<Token, R(Results...)>(
            std::forward<Initiation>(initiation), detail::forward_inner<Raw>(token.token),
            [values = std::tuple<Values...>(detail::forward_inner<Raw>(
                 token.values))]<class Handler>(Handler&& handler) mutable {
                return detail::consign_handler<std::decay_t<Handler>, Values...>{
                    std::forward<Handler>(handler), std::move(values)};
            },
            std::forward<Args>(args)...);
    }
};

}  // namespace verge
