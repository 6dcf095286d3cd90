// verge/io/as_tuple.hpp -- adapts a token: all results come as one std::tuple.
//
//     auto [error] = timer.async_wait(verge::as_tuple(verge::use_future)).get();
//     timer.async_wait(verge::as_tuple)(handler);      // alone: with the default token

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/deferred.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

template <class Token>
struct as_tuple_t {
    Token token;
};

namespace detail {

struct partial_as_tuple {
    template <class Token>
    constexpr auto operator()(Token&& token) const {
        return as_tuple_t<std::decay_t<Token>>{std::forward<Token>(token)};
    }
};

template <class Handler>
struct tuple_handler {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }
    template <class... Results>
    void operator()(Results&&... results) {
        std::move(handler)(std::tuple<std::decay_t<Results>...>(std::forward<Results>(results)...));
    }
    Handler handler;
};

}  // namespace detail

inline constexpr detail::partial_as_tuple as_tuple{};

template <class Token, class R, class... Results>
struct async_result<as_tuple_t<Token>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return detail::initiate_wrapped<Token, R(std::tuple<std::decay_t<Results>...>)>(
            std::forward<Initiation>(initiation), detail::forward_inner<Raw>(token.token),
            []<class Handler>(Handler&& handler) {
                return detail::tuple_handler<std::decay_t<Handler>>{std::forward<Handler>(handler)};
            },
            std::forward<Args>(args)...);
    }
};

/// Alone: with the default token.
template <class... Signatures>
struct async_result<detail::partial_as_tuple, Signatures...> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&&, Args&&... args) {
        return async_result<as_tuple_t<deferred_t>, Signatures...>::initiate(
            std::forward<Initiation>(initiation), as_tuple_t<deferred_t>{},
            std::forward<Args>(args)...);
    }
};

}  // namespace verge
