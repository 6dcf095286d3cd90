// verge/queue/periodic.hpp -- the next deadline of a periodic timer, and policies for missed ticks.
//
//     const verge::period_step step = verge::next_period(timer.deadline(), 20, now, policy);
//     wheel.arm_next(timer, step.next);    // in the timer's callback: keeps deadline order
//
// A pure function of the last deadline: burst and skip keep the phase, however late a run is.  It
// is what local_timers, timer_thread and periodic_timer use.  Not for calendars: a period is a
// number of ticks.
//
// Thread safety: as an int.  Exceptions: none.

#pragma once

#include <verge/queue/tick.hpp>

#include <cstdint>

namespace verge {

/// What a periodic timer does about missed ticks.
enum class missed_ticks : std::uint8_t {
    burst,  ///< Runs once for each of them, as fast as it can; the phase is kept.
    delay,  ///< Drops them and starts a new phase: the next run is a full period from now.
    skip,   ///< Drops them and keeps the phase: the next run is the first tick not yet missed.
};

/// The next deadline of a periodic timer, and how many of its ticks were dropped.
struct period_step {
    tick next;     ///< The next deadline.
    tick dropped;  ///< How many ticks the policy has dropped.
    friend constexpr bool operator==(const period_step&, const period_step&) noexcept = default;
};

/// The step after the run that was due at `last`.  While no tick has been missed, it is exactly one
/// period later, whatever the policy and however late the run was; a tick due at `now` itself is
/// not missed.  A period of 0 counts as 1.  Sums saturate at never_tick.
[[nodiscard]] constexpr period_step next_period(tick last, tick period, tick now,
                                                missed_ticks policy) noexcept {
    if (period == 0) period = 1;
    const tick next = tick_after(last, period);
    if (next >= now || policy == missed_ticks::burst) return {next, 0};
    // Ticks strictly before now: next, next + period, ...
    const tick missed = (now - next - 1) / period + 1;
    if (policy == missed_ticks::delay) return {tick_after(now, period), missed};
    // next + missed * period < now + period; the product cannot overflow, the sum may.
    return {tick_after(next, missed * period), missed};
}

}  // namespace verge
