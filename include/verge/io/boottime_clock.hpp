// verge/io/boottime_clock.hpp -- CLOCK_BOOTTIME as a clock of std::chrono.
//
//     const auto start = verge::boottime_clock::now();
//
// As the steady clock, but it also counts the time while the machine is suspended: for what is to
// happen two hours from now, awake or not.  Its timer is boottime_timer.
//
// Thread safety: all of it.  Exceptions: none.

#pragma once

#include <chrono>

namespace verge {

/// CLOCK_BOOTTIME: the time since the machine was started, suspends included.
struct boottime_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<boottime_clock>;
    static constexpr bool is_steady = true;
    [[nodiscard]] static time_point now() noexcept;
};

}  // namespace verge
