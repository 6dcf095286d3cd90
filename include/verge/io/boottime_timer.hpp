// verge/io/boottime_timer.hpp -- a loop's timer on CLOCK_BOOTTIME: goes on while the machine
// sleeps.
//
// What it does: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>
#include <verge/io/boottime_clock.hpp>

namespace verge {

using boottime_timer = basic_waitable_timer<boottime_clock>;

}  // namespace verge
