// verge/base/detail/in_place.hpp -- thread_number() and upper_now(), inlined.
//
// Both read thread-local variables, and a compiler may cache the address of such a variable within
// a function: it assumes that the thread stays the same.  In a fiber it may change.  So these are
// only for functions that
//   - are not inlined themselves: [[gnu::noinline]], which link-time optimisation respects too;
//   - and do not suspend.
// All others call the functions of the same name in verge/base/detail/.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstdint>

namespace verge::detail::in_place {

/// The thread-local data of both functions.
struct own_facts {
    std::uint64_t ticks = 0;   // the anchor of upper_now(): the counter's
    std::uint64_t ns = 0;      // and the clock's, a margin included
    std::uint64_t window = 0;  // in ticks; 0: no anchor
    unsigned number = 0;       // 0: none yet
};
extern constinit thread_local own_facts own;

/// Nanoseconds per tick, times 1.125, times 2^rate_shift.  0: not measured yet; 1: do not use the
/// counter.  Written once, by the first thread that needs it.
extern std::atomic<std::uint64_t> fast_rate;
inline constexpr unsigned rate_shift = 32;

/// Whether the processor executes other instructions while it reads the counter.  AMD's do.  On the
/// Intel processors measured, rdtsc waits for earlier instructions and delays later ones.  Written
/// with the rate.
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

/// upper_now() at the time when the counter was `ticks`, as read by this thread.
[[nodiscard]] inline time_point upper_time_at(std::uint64_t ticks) noexcept {
    const std::uint64_t passed = ticks - own.ticks;
    if (passed >= own.window) [[unlikely]]
        return new_anchor();
    // relaxed: this thread read it when it made the anchor, and it is written only once.
    const std::uint64_t rate = fast_rate.load(std::memory_order_relaxed);
    const std::uint64_t ns = own.ns + ((passed * rate) >> rate_shift);
    return time_point(duration(static_cast<duration::rep>(ns)));
}

[[nodiscard]] inline time_point upper_now() noexcept {
    return upper_time_at(counter());
}

/// A reading of upper_now() by a caller that does other work before it needs the time.  The counter
/// is read at construction if that work can overlap with the read, else by get().
class pending_now {
public:
    // relaxed: a flag that publishes nothing else.
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
