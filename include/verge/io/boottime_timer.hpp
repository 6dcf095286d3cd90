// verge/io/boottime_timer.hpp -- a loop's timer on CLOCK_BOOTTIME: it includes time in suspend.
//
//     verge::boottime_timer lease(io, 10min);
//     lease.async_wait([](std::error_code error) { ... });
//
// For an expiry that another machine or a token counts in real time: a lease, a certificate, a
// cache entry.  A wait whose expiry passes in suspend completes after the machine resumes; the
// timer does not wake the machine.  Not for time-outs of local work: steady_timer is cheaper.
//
// Contract, thread safety and exceptions: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>
#include <verge/io/boottime_clock.hpp>

namespace verge {

/// A timer on verge::boottime_clock.
using boottime_timer = basic_waitable_timer<boottime_clock>;

}  // namespace verge
