// verge/io/wait_traits.hpp -- how long to wait, in real time, for a time of a clock.
//
//     struct virtual_traits {                  // a clock that a test advances
//         static my_clock::duration to_wait_duration(my_clock::duration left);
//         static my_clock::duration to_wait_duration(my_clock::time_point until);
//     };
//     verge::basic_waitable_timer<my_clock, virtual_traits> timer(io);
//
// For timers of a clock that runs at another rate than real time, or that a test advances.  The
// timer sleeps for the returned duration, reads the clock, and completes if the clock has reached
// the expiry; if not, it asks again.  A duration of 0 reads the clock at every turn of the loop,
// which costs CPU.
//
// The clocks of <chrono> and boottime_clock need no traits of their own.  A clock that jumps
// without notice should return a small duration: the timer notices the jump only when it reads the
// clock.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/timer_test.cpp)
//   AUsersClockDecides      a wait completes when the clock has reached the expiry, not before.
//
// Thread safety: called from any thread that uses the timer or runs its loop.
// Exceptions: must not throw.

#pragma once

#include <verge/base/clock.hpp>

#include <chrono>

namespace verge {

namespace detail::io {

/// How long to wait, by `Traits`, for a time of a clock that is later than `now`.
template <class Clock, class Traits>
duration time_left(const typename Clock::time_point& until, const typename Clock::time_point& now) {
    // The difference of two times of different signs may be too large.
    using wide = std::chrono::duration<long double, std::nano>;
    const wide left = wide(until.time_since_epoch()) - wide(now.time_since_epoch());
    const auto limited =
        left >= wide((Clock::duration::max)()) ? (Clock::duration::max)() : until - now;
    return saturated_to<duration>(Traits::to_wait_duration(limited));
}

}  // namespace detail::io

/// The default: the clock runs as real time does.
template <class Clock>
struct wait_traits {
    /// How long to sleep before the clock is read again, if `left` remains.
    static typename Clock::duration to_wait_duration(const typename Clock::duration& left) {
        return left;
    }
    /// The same for a time point; 0 if it has passed.  Asio's interface: the library calls the
    /// other.
    static typename Clock::duration to_wait_duration(const typename Clock::time_point& until) {
        const typename Clock::time_point now = Clock::now();
        // `until` may be time_point::min() or max(): the subtraction must not overflow.
        if (until <= now) return Clock::duration::zero();
        if (now.time_since_epoch() < Clock::duration::zero() &&
            until.time_since_epoch() > (Clock::duration::max)() + now.time_since_epoch()) {
            return (Clock::duration::max)();
        }
        return until - now;
    }
};

}  // namespace verge
