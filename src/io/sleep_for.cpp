// A relative sleep, by clock_nanosleep.

#include <verge/base/detail/kernel.hpp>
#include <verge/io/detail/sleep_for.hpp>

#include <chrono>

#include <time.h>

namespace verge::detail::io {

void sleep_for(duration time) noexcept {
    if (time <= duration::zero()) return;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const timespec left{static_cast<time_t>(seconds.count()),
                        static_cast<long>((time - seconds).count())};
    os::clock_nanosleep(CLOCK_MONOTONIC, 0, &left, nullptr);
}

}  // namespace verge::detail::io
