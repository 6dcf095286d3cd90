// src/base/spin_lock.cpp -- how a waiter of a spin lock yields and sleeps.

#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/spin_lock.hpp>

#include <algorithm>

#include <sched.h>
#include <time.h>

namespace verge::detail {

void spin_platform::give_way(unsigned round) noexcept {
    constexpr unsigned yields = 16;
    if (round < yields) {
        os::sched_yield();
        return;
    }
    // Yielding does not let a thread of lower real-time priority run; sleeping does.
    const long microseconds = std::min(1000L, 20L << std::min(round - yields, 6U));
    const timespec nap{0, microseconds * 1000};
    os::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
}

}  // namespace verge::detail
