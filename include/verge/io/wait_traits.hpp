// verge/io/wait_traits.hpp -- how long to wait, in real time, for a time of a clock.
//
//     struct virtual_traits {                  // a clock that runs when the test says so
//         static my_clock::duration to_wait_duration(my_clock::duration left);
//         static my_clock::duration to_wait_duration(my_clock::time_point until);
//     };
//     verge::basic_waitable_timer<my_clock, virtual_traits> timer(io);
//
// A timer of such a clock looks at the clock again after that while, and completes when the clock
// says that it is time.  A while of 0 looks at every turn of the loop.

#pragma once

#include <verge/base/clock.hpp>

#include <chrono>

namespace verge {

namespace detail::io {

/// A duration in whole nanoseconds, rounded up, stopping at the first and the last there is.
template <class D>
duration in_nanoseconds(const D& d) {
    using wide = std::chrono::duration<long double, std::nano>;
    if (wide(d) >= wide(duration::max())) return duration::max();
    if (wide(d) <= wide(duration::min())) return duration::min();
    return std::chrono::ceil<duration>(d);
}

/// How long to wait, by `Traits`, for a time of a clock that is later than `now`.
template <class Clock, class Traits>
duration time_left(const typename Clock::time_point& until, const typename Clock::time_point& now) {
    // The difference of two times of different signs may be too large.
    using wide = std::chrono::duration<long double, std::nano>;
    const wide left = wide(until.time_since_epoch()) - wide(now.time_since_epoch());
    const auto limited =
        left >= wide((Clock::duration::max)()) ? (Clock::duration::max)() : until - now;
    return in_nanoseconds(Traits::to_wait_duration(limited));
}

}  // namespace detail::io

template <class Clock>
struct wait_traits {
    static typename Clock::duration to_wait_duration(const typename Clock::duration& left) {
        return left;
    }
    static typename Clock::duration to_wait_duration(const typename Clock::time_point& until) {
        const typename Clock::time_point now = Clock::now();
        // Without overflow: `until` may be the first or the last of all times.
        if (until <= now) return Clock::duration::zero();
        if (now.time_since_epoch() < Clock::duration::zero() &&
            until.time_since_epoch() > (Clock::duration::max)() + now.time_since_epoch()) {
            return (Clock::duration::max)();
        }
        return until - now;
    }
};

}  // namespace verge
