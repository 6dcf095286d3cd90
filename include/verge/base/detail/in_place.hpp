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

/// Whether the processor goes on with other instructions while it reads the counter.  AMD's do.  On
/// Intel's, here, what comes after it begins when all that came before it has ended.  Written with
/// the rate.
extern std::atomic<bool> counter_overlaps;

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

/// upper_now() as of when the counter stood at `ticks`, which this thread read.
[[nodiscard]] inline time_point upper_time_at(std::uint64_t ticks) noexcept {
    const std::uint64_t passed = ticks - own.ticks;
    if (passed >= own.window) [[unlikely]]
        return new_anchor();
    // relaxed: written before the anchor that this thread made.
    const std::uint64_t rate = fast_rate.load(std::memory_order_relaxed);
    const std::uint64_t ns = own.ns + ((passed * rate) >> rate_shift);
    return time_point(duration(static_cast<duration::rep>(ns)));
}

[[nodiscard]] inline time_point upper_now() noexcept {
    return upper_time_at(counter());
}

/// A reading of upper_now(), for who has other work to do until the time is asked for.  The counter
/// is read at the beginning if that work can run beside it, else at the end.
class pending_now {
public:
    // relaxed: a number that stands for itself.
    pending_now() noexcept : early_(counter_overlaps.load(std::memory_order_relaxed)) {
        if (early_) ticks_ = counter();
    }
    [[nodiscard]] time_point get() const noexcept {
        return upper_time_at(early_ ? ticks_ : counter());
    }

private:
    std::uint64_t ticks_ = 0;
    bool early_;
};

}  // namespace verge::detail::in_place
