// verge/base/detail/fast_clock.hpp -- a cheap upper bound of "now", for the start of a time-out.
//
// clock_gettime costs about 24 ns, half of what arming a timer costs.  Where the kernel's own clock
// source is the time stamp counter, a thread reads the counter instead and extrapolates from an
// anchor: its own last clock_gettime, which is at most 16 us old.
//
// Why it is never too early.  Let (t0, n0) be the anchor: the counter was read before the clock, so
// CLOCK_MONOTONIC was at most n0 when the counter stood at t0.  Since then it ran at most at the
// nominal rate times 1.10 (the kernel lets adjtimex change a clock's rate by 10 %, and chrony uses
// up to 8.3 %).  We extrapolate at the measured rate times 1.125.  So the sum is never below the
// clock; it exceeds it by at most 2 us for the rate, 1 us for reading the anchor, and a margin of
// 64 ns.  A counter that jumped (suspend, migration) invalidates the anchor, since the distance is
// then negative or too large.
//
// Only schedule_after() may use it: a deadline computed from it is rounded up.  Whether a timer is
// due is always decided by clock_gettime.

#pragma once

#include <verge/base/clock.hpp>

namespace verge::detail {

/// A time not before the clock's, and at most 3.1 us after it.
[[nodiscard]] time_point upper_now() noexcept;

/// Whether upper_now() reads the counter on this machine.
[[nodiscard]] bool upper_now_is_fast() noexcept;

}  // namespace verge::detail
