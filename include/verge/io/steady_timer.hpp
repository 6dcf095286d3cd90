// verge/io/steady_timer.hpp -- a loop's timer on CLOCK_MONOTONIC: the one for time-outs.
//
//     verge::steady_timer timer(io, 50ms);                        // examples/loop_timer.cpp
//     timer.async_wait([](std::error_code error) { ... });
//
// For time-outs and delays: setting the date does not affect it, and time in suspend does not
// count.  Not for a time of day (system_timer), nor for a delay that includes suspend
// (boottime_timer).
//
// Contract, thread safety and exceptions: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>

#include <chrono>

namespace verge {

/// A timer on std::chrono::steady_clock.
using steady_timer = basic_waitable_timer<std::chrono::steady_clock>;

}  // namespace verge
