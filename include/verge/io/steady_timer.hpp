// verge/io/steady_timer.hpp -- a loop's timer on CLOCK_MONOTONIC: the one for time-outs.
//
// What it does: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>

#include <chrono>

namespace verge {

using steady_timer = basic_waitable_timer<std::chrono::steady_clock>;

}  // namespace verge
