// verge/io/detached.hpp -- the token that ignores the result.
//
//     timer.async_wait(verge::detached);
//
// For an operation whose end changes nothing: a last write before a close.  Errors are dropped,
// too.  The objects that the operation refers to must still outlive it;
// verge::consign(verge::detached, object) keeps them alive.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/token_test.cpp)
//   DetachedIgnoresEverything
//
// Thread safety and exceptions: those of the operation, when it begins.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>

#include <utility>

namespace verge {

/// The type of verge::detached.  May be the default token of an object: as_default_on() in
/// verge/io/default_completion_token.hpp.
struct detached_t : detail::io::may_be_default<detached_t> {
    constexpr detached_t() noexcept = default;
};
/// The token: the operation returns void.
inline constexpr detached_t detached{};

namespace detail::io {

/// Takes any results, and does nothing.
struct detached_handler {
    template <class... Results>
    void operator()(Results&&...) noexcept {}
};

}  // namespace detail::io

template <class... Signatures>
struct async_result<detached_t, Signatures...> {
    template <class Initiation, class Raw, class... Args>
    static void initiate(Initiation&& initiation, Raw&&, Args&&... args) {
        std::forward<Initiation>(initiation)(detail::io::detached_handler{},
                                             std::forward<Args>(args)...);
    }
};

}  // namespace verge
