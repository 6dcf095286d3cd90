// verge/io/detached.hpp -- the token for those who do not want to know.
//
//     timer.async_wait(verge::detached);

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>

#include <utility>

namespace verge {

struct detached_t : detail::io::may_be_default<detached_t> {
    constexpr detached_t() noexcept = default;
};
inline constexpr detached_t detached{};

namespace detail::io {

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
