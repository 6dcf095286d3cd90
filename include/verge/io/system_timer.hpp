// verge/io/system_timer.hpp -- a loop's timer on CLOCK_REALTIME: it follows the date when that is
// set.
//
//     verge::system_timer alarm(io, tomorrow_at_six);
//     alarm.async_wait([](std::error_code error) { ... });
//
// For a time of day.  If the date is set forward past the expiry, waits complete at once; if it is
// set back, they complete later.  Not for time-outs, which a new date would end or prolong:
// steady_timer.
//
// Contract, thread safety and exceptions: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>

#include <chrono>

namespace verge {

/// A timer on std::chrono::system_clock.
using system_timer = basic_waitable_timer<std::chrono::system_clock>;

}  // namespace verge
