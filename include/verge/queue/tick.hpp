// verge/queue/tick.hpp -- the time of queues: unsigned 64-bit ticks, of any length.
//
// A queue does not know the length of a tick and reads no clock: the caller passes `now`.
// tick_scale (verge/base/clock.hpp) converts to and from time points.

#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace verge {

using tick = std::uint64_t;

/// The tick that is never reached.  A timer armed for it is armed, and never fires.
inline constexpr tick never_tick = std::numeric_limits<tick>::max();

/// The budget of an advance() that fires every due timer.
inline constexpr std::size_t no_budget = std::numeric_limits<std::size_t>::max();

/// `now + delay`, saturating at never_tick.
[[nodiscard]] constexpr tick tick_after(tick now, tick delay) noexcept {
    return delay > never_tick - now ? never_tick : now + delay;
}

/// The same for a signed delay: a negative one counts as 0.
template <std::signed_integral Delay>
[[nodiscard]] constexpr tick tick_after(tick now, Delay delay) noexcept {
    return delay < 0 ? now : tick_after(now, static_cast<tick>(delay));
}

/// The tick in [earliest, latest] with the most trailing zero bits.  Timers with overlapping slack
/// tend to get the same tick, so that one wake-up serves them.  An empty range gives `earliest`:
/// never early.
[[nodiscard]] constexpr tick roundest_tick(tick earliest, tick latest) noexcept {
    if (earliest >= latest) return earliest;
    if (earliest == 0) return 0;
    // The highest bit in which `latest` and `earliest - 1` differ is 1 in `latest`: clearing the
    // bits of `latest` below it gives the roundest number that is still above `earliest - 1`.
    const int keep = std::countl_zero(latest ^ (earliest - 1));
    return latest & ~(never_tick >> 1 >> keep);
}

}  // namespace verge
