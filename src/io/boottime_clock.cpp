// Reads CLOCK_BOOTTIME.

#include <verge/base/detail/kernel.hpp>
#include <verge/io/boottime_clock.hpp>

#include <time.h>

namespace verge {

boottime_clock::time_point boottime_clock::now() noexcept {
    timespec at{};
    detail::os::clock_gettime(CLOCK_BOOTTIME, &at);
    return time_point(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
}

}  // namespace verge
