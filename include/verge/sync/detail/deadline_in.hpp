// verge/sync/detail/deadline_in.hpp -- the deadline of a delay that begins now.
//
// Every ..._for() of this layer calls it before its ..._until().

#pragma once

#include <verge/base/clock.hpp>

#include <concepts>

namespace verge::detail::sync {

/// Any duration: it becomes nanoseconds, rounded up and saturated.
template <class T>
concept delay = other_duration<T> || std::convertible_to<T, duration>;

template <delay Delay>
[[nodiscard]] time_point deadline_in(Delay from_now) noexcept {
    return deadline_after(steady_source{}.now(), from_now);
}

}  // namespace verge::detail::sync
