// src/base/clock.cpp -- reads CLOCK_MONOTONIC.

#include <verge/base/clock.hpp>
#include <verge/base/detail/kernel.hpp>

namespace verge {

time_point steady_source::now() const noexcept {
    timespec at{};
    detail::os::clock_gettime(CLOCK_MONOTONIC, &at);
    return time_point(duration(static_cast<duration::rep>(at.tv_sec) * 1'000'000'000 + at.tv_nsec));
}

}  // namespace verge
