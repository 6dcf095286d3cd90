// src/base/fast_clock.cpp -- measures the rate of the time stamp counter and sets the anchors.

#include <verge/base/detail/fast_clock.hpp>
#include <verge/base/detail/in_place.hpp>
#include <verge/base/detail/kernel.hpp>

#include <atomic>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace verge::detail {

std::atomic<std::uint64_t> in_place::fast_rate{0};
std::atomic<bool> in_place::counter_overlaps{false};

namespace {

using in_place::counter;
using in_place::fast_rate;

#ifdef __x86_64__

bool kernel_trusts_counter() noexcept {
    constexpr const char* path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    const int fd = os::open_to_read(path);
    if (fd < 0) return false;
    char name[8] = {};
    const ssize_t got = os::read(fd, name, sizeof name - 1);
    os::close(fd);
    return got >= 4 && std::memcmp(name, "tsc\n", 4) == 0;
}

bool processor_goes_on() noexcept {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
}

#else

bool processor_goes_on() noexcept {
    return false;
}

bool kernel_trusts_counter() noexcept {
    return false;
}

#endif

std::uint64_t clock_ns() noexcept {
    timespec now{};
    os::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(now.tv_nsec);
}

struct pair {
    std::uint64_t ticks;  // read before the clock
    std::uint64_t ns;
    std::uint64_t width;  // ticks that it took to read both
};

pair read_both() noexcept {
    const std::uint64_t before = counter();
    const std::uint64_t ns = clock_ns();
    return {before, ns, counter() - before};
}

constexpr std::uint64_t window_ns = 16'000;
constexpr std::uint64_t margin_ns = 64;  // for reads that the processor executed a little early
constexpr unsigned shift = in_place::rate_shift;
constexpr std::uint64_t unusable = 1;  // the rate that means "do not use the counter"

// Measures the rate to within 1 %, which the factor of 1.125 allows for: 100 us suffice.
std::uint64_t measure_rate() noexcept {
    if (!kernel_trusts_counter()) return unusable;
    for (int attempt = 0; attempt < 100; ++attempt) {
        const pair from = read_both();
        pair to = read_both();
        while (to.ns - from.ns < 100'000)
            to = read_both();
        const std::uint64_t ticks = to.ticks - from.ticks;
        const std::uint64_t ns = to.ns - from.ns;
        // Discard a pair whose two reads were interrupted.
        if (from.width + to.width > ticks / 200 || ns > 10'000'000 || ticks == 0) continue;
        return ((ns << shift) / ticks) * 9 / 8;
    }
    return unusable;
}

std::uint64_t usable_rate() noexcept {
    // relaxed, three times: a number that publishes nothing else.
    std::uint64_t rate = fast_rate.load(std::memory_order_relaxed);
    if (rate != 0) return rate;
    // relaxed: a flag that publishes nothing else.
    in_place::counter_overlaps.store(processor_goes_on(), std::memory_order_relaxed);
    const std::uint64_t measured = measure_rate();
    // The first thread decides for all: if a later one stored `unusable`, threads that have made an
    // anchor would extrapolate with it, and be too early.  relaxed: as above.
    return fast_rate.compare_exchange_strong(rate, measured, std::memory_order_relaxed,
                                             std::memory_order_relaxed)
               ? measured
               : rate;
}

}  // namespace

time_point in_place::new_anchor() noexcept {
    const auto as_time = [](std::uint64_t ns) {
        return time_point(duration(static_cast<duration::rep>(ns)));
    };
    // A replaced kernel is called each time: the counter does not follow its time.
    if (kernel::replacement() != nullptr) {
        own.window = 0;
        return as_time(clock_ns());
    }
    const std::uint64_t rate = usable_rate();
    if (rate == unusable) return as_time(clock_ns());
    const pair now = read_both();
    // A slow reading would put the result far above the clock: then make no anchor.
    const std::uint64_t window = (window_ns << shift) / rate;
    own.ticks = now.ticks;
    own.ns = now.ns + margin_ns;
    own.window = now.width < window / 16 ? window : 0;
    return as_time(own.ns);
}

[[gnu::noinline]] time_point upper_now() noexcept {
    return in_place::upper_now();
}

bool upper_now_is_fast() noexcept {
    return usable_rate() != unusable;
}

}  // namespace verge::detail
