#include <verge/base/detail/spin_lock.hpp>

#include <algorithm>

#include <time.h>

#include <sched.h>

namespace verge::detail {

void spin_platform::give_way(unsigned round) noexcept {
    constexpr unsigned yields = 16;
    if (round < yields) {
        ::sched_yield();
        return;
    }
    // Yielding does not let a thread of lower real-time priority run; sleeping does.
    const long microseconds = std::min(1000L, 20L << std::min(round - yields, 6U));
    const timespec nap{0, microseconds * 1000};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
}

}  // namespace verge::detail
