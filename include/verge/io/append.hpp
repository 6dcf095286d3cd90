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

#include <verge/io/async_result.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

template <class Token, class... Values>
struct append_t {
    Token token;
    std::tuple<Values...> values;
};

/// The token, whose results are followed by the values.
template <class Token, class... Values>
[[nodiscard]] constexpr auto append(Token&& token, Values&&... values) {
    return append_t<std::decay_t<Token>, std::decay_t<Values>...>{
        std::forward<Token>(token),
        std::tuple<std::decay_t<Values>...>(std::forward<Values>(values)...)};
}

namespace detail {

template <class Handler, class... Values>
struct append_handler {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }
    template <class... Results>
    void operator()(Results&&... results) {
        std::apply(
            [&](Values&... own) {
                std::move(handler)(std::forward<Results>(results)..., std::move(own)...);
            },
            values);
    }
    Handler handler;
    std::tuple<Values...> values;
};

}  // namespace detail

template <class Token, class... Values, class R, class... Results>
struct async_result<append_t<Token, Values...>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return detail::initiate_wrapped<Token, R(std::decay_t<Results>..., Values...)>(
            std::forward<Initiation>(initiation), detail::forward_inner<Raw>(token.token),
            [values = std::tuple<Values...>(detail::forward_inner<Raw>(
                 token.values))]<class Handler>(Handler&& handler) mutable {
                return detail::append_handler<std::decay_t<Handler>, Values...>{
                    std::forward<Handler>(handler), std::move(values)};
            },
            std::forward<Args>(args)...);
    }
};

}  // namespace verge
