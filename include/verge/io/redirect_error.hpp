// verge/io/redirect_error.hpp -- adapts a token: the error goes into a variable.
//
//     std::error_code error;
//     timer.async_wait(verge::redirect_error(verge::use_future, error)).get();   // does not throw
//     timer.async_wait(verge::redirect_error(error))(handler);     // alone: with the default token
//
// The handler gets the results without the error.  For use_future, which would throw it; as_tuple
// (verge/io/as_tuple.hpp) returns it among the results instead.  For operations whose first result
// is an error_code; others do not compile.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   RedirectErrorFillsAVariable
//   AdaptersKeepWhatBelongsToTheHandler    executor, allocator and slot are the inner handler's.
//
// Thread safety: the variable must live until the operation has completed.  It is written before
// the handler is called, on the thread that calls it.
// Exceptions: those of the operation.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>

#include <system_error>
#include <type_traits>
#include <utility>

namespace verge {

/// The type that redirect_error() returns for a token: it refers to the variable.
template <class Token>
struct redirect_error_t {
    Token token;
    std::error_code& error;
};

/// Adapts `token`: the operation's error is stored in `error`, also when it is success.
template <class Token>
[[nodiscard]] auto redirect_error(Token&& token, std::error_code& error) {
    return redirect_error_t<std::decay_t<Token>>{std::forward<Token>(token), error};
}

/// Without a token: call it with one, or give it to an operation, whose default token it adapts.
struct partial_redirect_error {
    std::error_code& error;
    template <class Token>
    [[nodiscard]] auto operator()(Token&& token) const {
        return redirect_error(std::forward<Token>(token), error);
    }
};
/// The same for the operation's default token.
[[nodiscard]] inline auto redirect_error(std::error_code& error) {
    return partial_redirect_error{error};
}

namespace detail::io {

/// Stores the error, and calls the inner handler with the other results.
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
