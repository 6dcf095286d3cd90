// verge/io/detail/token_values.hpp -- a token with values of the caller: append, prepend, consign.
//
// The three differ in what the handler gets.  `How` has two members:
//   signature(results, values)            the signature of the inner token, as a pointer to it
//   call(handler, values, results...)     calls the handler

#pragma once

#include <verge/io/async_result.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

template <class How, class Token, class... Values>
struct token_with_values {
    Token token;
    std::tuple<Values...> values;
};

template <class How, class Token, class... Values>
[[nodiscard]] constexpr auto make_token_with_values(Token&& token, Values&&... values) {
    return token_with_values<How, std::decay_t<Token>, std::decay_t<Values>...>{
        std::forward<Token>(token),
        std::tuple<std::decay_t<Values>...>(std::forward<Values>(values)...)};
}

template <class How, class Handler, class... Values>
struct handler_with_values {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }
    template <class... Results>
    void operator()(Results&&... results) {
        How::call(handler, values, std::forward<Results>(results)...);
    }
    Handler handler;
    std::tuple<Values...> values;
};

}  // namespace detail::io

template <class How, class Token, class... Values, class R, class... Results>
struct async_result<detail::io::token_with_values<How, Token, Values...>, R(Results...)> {
    using inner_signature = std::remove_pointer_t<decltype(How::signature(
        static_cast<R (*)(Results...)>(nullptr), static_cast<std::tuple<Values...>*>(nullptr)))>;

    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return detail::io::initiate_wrapped<Token, inner_signature>(
            std::forward<Initiation>(initiation), detail::io::forward_inner<Raw>(token.token),
            [values = std::tuple<Values...>(detail::io::forward_inner<Raw>(
                 token.values))]<class Handler>(Handler&& handler) mutable {
                return detail::io::handler_with_values<How, std::decay_t<Handler>, Values...>{
                    std::forward<Handler>(handler), std::move(values)};
            },
            std::forward<Args>(args)...);
    }
};

}  // namespace verge
