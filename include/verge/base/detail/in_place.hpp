// verge/base/detail/in_place.hpp -- thread_number() and upper_now() without a call.
//
// Both read variables of the calling thread, and a compiler may keep the address of such a variable
// for as long as it believes that the thread stays the same.  In a fiber it does not.  So these are
// only for functions that
//   - are not inlined themselves: [[gnu::noinline]], which link-time optimisation respects too;
//   - and do not suspend.
// All others call the functions of the same name in verge/base/detail/.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstdint>

namespace verge::detail::in_place {

/// What a thread knows of itself.
struct own_facts {
    std::uint64_t ticks = 0;   // the anchor of upper_now(): the counter's
    std::uint64_t ns = 0;      // and the clock's, a margin included
    std::uint64_t window = 0;  // in ticks; 0: no anchor
    unsigned number = 0;       // 0: none yet
};
extern constinit thread_local own_facts own;

/// Nanoseconds a tick, times 1.125, times 2^rate_shift.  0: not measured yet; 1: do not use the
/// counter.  Written once, by whoever comes first.
extern std::atomic<std::uint64_t> fast_rate;
inline constexpr unsigned rate_shift = 32;

inline std::uint64_t counter() noexcept {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

[[nodiscard]] unsigned new_number() noexcept;
[[nodiscard]] time_point new_anchor() noexcept;

[[nodiscard]] inline unsigned thread_number() noexcept {
    const unsigned number = own.number;
    return number != 0 ? number : new_number();
}

[[nodiscard]] inline time_point upper_now() noexcept {
    const std::uint64_t passed = counter() - own.ticks;
    if (passed >= own.window) [[unlikely]]
        return new_anchor();
    // relaxed: written before the anchor that this thread made.
    const std::uint64_t rate = fast_rate.load(std::memory_order_relaxed);
    const std::uint64_t ns = own.ns + ((passed * rate) >> rate_shift);
    return time_point(duration(static_cast<duration::rep>(ns)));
}

}  // namespace verge::detail::in_place
