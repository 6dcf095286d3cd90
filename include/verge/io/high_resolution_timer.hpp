// verge/io/high_resolution_timer.hpp -- a loop's timer on std::chrono::high_resolution_clock.
//
// For code that comes from Asio.  Which clock that is depends on the standard library: with
// libstdc++ it is system_clock, so this is the same type as system_timer and follows the date; with
// libc++ it is steady_clock.  New code should name the clock that it means: steady_timer or
// system_timer.
//
// Contract, thread safety and exceptions: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>

#include <chrono>

namespace verge {

/// A timer on std::chrono::high_resolution_clock, whichever clock that is.
using high_resolution_timer = basic_waitable_timer<std::chrono::high_resolution_clock>;

}  // namespace verge
