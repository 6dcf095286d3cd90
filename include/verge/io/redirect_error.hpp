// verge/io/redirect_error.hpp -- adapts a token: the error goes into a variable.
//
//     std::error_code error;
//     timer.async_wait(verge::redirect_error(verge::use_future, error)).get();   // does not throw
//     timer.async_wait(verge::redirect_error(error))(handler);     // alone: with the default token
//
// The variable must live until the operation has completed.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>

#include <system_error>
#include <type_traits>
#include <utility>

namespace verge {

template <class Token>
struct redirect_error_t {
    Token token;
    std::error_code& error;
};

template <class Token>
[[nodiscard]] auto redirect_error(Token&& token, std::error_code& error) {
    return redirect_error_t<std::decay_t<Token>>{std::forward<Token>(token), error};
}

/// Alone: with the default token of the operation; or called with a token.
struct partial_redirect_error {
    std::error_code& error;
    template <class Token>
    [[nodiscard]] auto operator()(Token&& token) const {
        return redirect_error(std::forward<Token>(token), error);
    }
};
[[nodiscard]] inline auto redirect_error(std::error_code& error) {
    return partial_redirect_error{error};
}

namespace detail::io {

template <class Handler>
struct redirect_handler {
    using wrapped_type = Handler;
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler; }
    template <class... Results>
    void operator()(std::error_code result, Results&&... results) {
        error = result;
        std::move(handler)(std::forward<Results>(results)...);
    }
    std::error_code& error;
    Handler handler;
};

}  // namespace detail::io

template <class Token, class R, class... Results>
struct async_result<redirect_error_t<Token>, R(std::error_code, Results...)> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        return detail::io::initiate_wrapped<Token, R(Results...)>(
            std::forward<Initiation>(initiation), detail::io::forward_inner<Raw>(token.token),
            [error = &token.error]<class Handler>(Handler&& handler) {
                return detail::io::redirect_handler<std::decay_t<Handler>>{
                    *error, std::forward<Handler>(handler)};
            },
            std::forward<Args>(args)...);
    }
};

template <class... Signatures>
struct async_result<partial_redirect_error, Signatures...> {
    template <class Initiation, class Raw, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        using inner = detail::io::default_token_of_initiation_t<Initiation>;
        return async_result<redirect_error_t<inner>, Signatures...>::initiate(
            std::forward<Initiation>(initiation), token(inner()), std::forward<Args>(args)...);
    }
};

}  // namespace verge
