// verge/queue/tick.hpp -- how queues count time: unsigned 64-bit ticks, of any length.
//
// A queue does not know how long a tick is, nor what time it is: the caller says.  tick_scale
// (verge/base/clock.hpp) converts to and from time points.

#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace verge {

using tick = std::uint64_t;

/// The tick that never comes.  A timer armed for it is armed, and never fires.
inline constexpr tick never_tick = std::numeric_limits<tick>::max();

/// The budget of an advance() that fires all that is due.
inline constexpr std::size_t no_budget = std::numeric_limits<std::size_t>::max();

/// `now + delay`, stopping at never_tick instead of overflowing.
[[nodiscard]] constexpr tick tick_after(tick now, tick delay) noexcept {
    return delay > never_tick - now ? never_tick : now + delay;
}

/// The same for a signed delay: a negative one is none.
template <std::signed_integral Delay>
[[nodiscard]] constexpr tick tick_after(tick now, Delay delay) noexcept {
    return delay < 0 ? now : tick_after(now, static_cast<tick>(delay));
}

/// The tick in [earliest, latest] that has the most trailing zero bits: where timers with slack
/// meet, so that one wake-up serves them all.  An empty range gives `earliest`: never early.
[[nodiscard]] constexpr tick roundest_tick(tick earliest, tick latest) noexcept {
    if (earliest >= latest) return earliest;
    if (earliest == 0) return 0;
    // `latest` and `earliest - 1` first differ in some bit, which is 1 in `latest`: cutting
    // `latest` off below it gives the roundest number that is still above `earliest - 1`.
    const int keep = std::countl_zero(latest ^ (earliest - 1));
    return latest & ~(never_tick >> 1 >> keep);
}

}  // namespace verge
