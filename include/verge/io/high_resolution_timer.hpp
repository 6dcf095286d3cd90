// verge/io/high_resolution_timer.hpp -- a loop's timer on the standard library's finest clock.
//
// What it does: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>

#include <chrono>

namespace verge {

using high_resolution_timer = basic_waitable_timer<std::chrono::high_resolution_clock>;

}  // namespace verge
