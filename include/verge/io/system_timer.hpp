// verge/io/system_timer.hpp -- a loop's timer on the date: it follows a change of it at once.
//
// What it does: verge/io/basic_waitable_timer.hpp.

#pragma once

#include <verge/io/basic_waitable_timer.hpp>

#include <chrono>

namespace verge {

using system_timer = basic_waitable_timer<std::chrono::system_clock>;

}  // namespace verge
