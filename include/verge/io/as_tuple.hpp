// verge/io/as_tuple.hpp -- adapts a token: all results come as one std::tuple.
//
//     auto [error] = timer.async_wait(verge::as_tuple(verge::use_future)).get();
//     timer.async_wait(verge::as_tuple)(handler);      // alone: with the operation's default token
//
// With use_future it returns the error as a value where use_future alone throws it.  To keep only
// the error apart from the other results, use redirect_error (verge/io/redirect_error.hpp).
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   AsTupleGivesOneArgument
//   AdaptersKeepWhatBelongsToTheHandler    executor, allocator and slot are the inner handler's.
//
// Thread safety and exceptions: those of the operation, and of the results' moves.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

/// A token that passes all results to `Token` as one tuple.  May be the default token of an object:
/// as_default_on() in verge/io/default_completion_token.hpp.
template <class Token>
struct as_tuple_t : detail::io::may_be_default<as_tuple_t<Token>> {
    constexpr as_tuple_t() requires std::is_default_constructible_v<Token>
    = default;
    template <class T>
    requires(!std::is_same_v<std::decay_t<T>, as_tuple_t>) constexpr explicit as_tuple_t(T&& inner)
        : token(std::forward<T>(inner)) {}
    Token token{};
};

namespace detail::io {

/// as_tuple itself: a function that adapts a token, and a token that adapts the default one.
struct partial_as_tuple {
    template <class Token>
    constexpr auto operator()(Token&& token) const {
        return as_tuple_t<std::decay_t<Token>>(std::forward<Token>(token));
    }
};

/// Calls the inner handler with std::tuple(results...).
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

}  // namespace detail::io

/// as_tuple(token) adapts `token`: for results R... it sees the signature void(std::tuple<R...>).
/// Given as a token itself, it adapts the operation's default token.
inline constexpr detail::io::partial_as_tuple as_tuple{};

template <class Token, class R, class... Results>
struct async_result<as_tuple_t<Token>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return detail::io::initiate_wrapped<Token, R(std::tuple<std::decay_t<Results>...>)>(
            std::forward<Initiation>(initiation), detail::io::forward_inner<Raw>(token.token),
            []<class Handler>(Handler&& handler) {
                return detail::io::tuple_handler<std::decay_t<Handler>>{
                    std::forward<Handler>(handler)};
            },
            std::forward<Args>(args)...);
    }
};

/// Alone: with the default token of the operation.
template <class... Signatures>
struct async_result<detail::io::partial_as_tuple, Signatures...> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&&, Args&&... args) {
        using whole = as_tuple_t<detail::io::default_token_of_initiation_t<Initiation>>;
        return async_result<whole, Signatures...>::initiate(std::forward<Initiation>(initiation),
                                                            whole(), std::forward<Args>(args)...);
    }
};

}  // namespace verge
