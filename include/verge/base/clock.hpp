// verge/base/clock.hpp -- durations, deadlines and ticks: the time types of every layer.
//
// A deadline is a point on CLOCK_MONOTONIC, in nanoseconds.  Wall-clock time never enters the
// library: a change of date must not fire a timer.  Queues never read a clock; they count ticks,
// the caller passes `now`, and a tick_scale converts.  So every queue test runs on virtual time
// (verge/base/manual_clock.hpp).
//
//     verge::steady_source source;
//     auto deadline = verge::deadline_after(source.now(), 5s);
//     verge::tick_scale scale(1ms, source.now());
//     queue.arm_at(timer, scale.ticks_ceil(deadline));      // later: queue.advance(
//                                                           //     scale.ticks_floor(source.now()))
//
// It is not for dates, time zones or the time of another process.
//
// Thread safety: all of this is values and pure functions; use them from any thread.
// Exceptions: only the constructor of tick_scale throws.

#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>
#include <stdexcept>

namespace verge {

using duration = std::chrono::nanoseconds;
using clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, in libstdc++ and in libc++
using time_point = std::chrono::time_point<clock, duration>;

/// The deadline that is never reached.
inline constexpr time_point never = time_point::max();

/// The largest finite time.  Sums that must stay finite saturate here.
inline constexpr time_point last_time = never - duration(1);

/// `now + delay`, saturating at `never`.  A delay <= 0 gives `now`.
[[nodiscard]] constexpr time_point deadline_after(time_point now, duration delay) noexcept {
    if (delay <= duration::zero()) return now;
    duration::rep sum = 0;
    if (__builtin_add_overflow(now.time_since_epoch().count(), delay.count(), &sum)) return never;
    return time_point(duration(sum));
}

namespace detail {

template <class T>
inline constexpr bool is_chrono_duration = false;
template <class Rep, class Period>
inline constexpr bool is_chrono_duration<std::chrono::duration<Rep, Period>> = true;

}  // namespace detail

/// A duration in other units than `duration`: hours, duration<double>, unsigned milliseconds.
template <class T>
concept other_duration = detail::is_chrono_duration<T> && !std::same_as<T, duration>;

/// Converts a duration: rounds up, and saturates at To::min() and To::max() where it does not fit,
/// as hours::max() does not fit into 64 bits of nanoseconds.  Not a number is To::max().
template <class To, class Rep, class Period>
[[nodiscard]] constexpr To saturated_to(const std::chrono::duration<Rep, Period>& from) noexcept {
    using factor = std::ratio_divide<Period, typename To::period>;
    if constexpr (std::integral<Rep> && std::integral<typename To::rep>) {
        __extension__ using wide = __int128;
        const wide product = wide{from.count()} * wide{factor::num};
        const wide down = product / factor::den;  // towards 0
        const wide up = down + (product > 0 && down * factor::den != product ? 1 : 0);
        if (up >= wide{To::max().count()}) return To::max();
        if (up <= wide{To::min().count()}) return To::min();
        return To(static_cast<typename To::rep>(up));
    } else {
        using wide = std::chrono::duration<long double, typename To::period>;
        const wide exact(from);
        if (!(exact < wide(To::max()))) return To::max();  // also if it is not a number
        if (exact <= wide(To::min())) return To::min();
        return std::chrono::ceil<To>(exact);
    }
}

/// saturated_to nanoseconds.
template <other_duration Delay>
[[nodiscard]] constexpr duration saturated(const Delay& delay) noexcept {
    return saturated_to<duration>(delay);
}

/// deadline_after() for a delay in other units.
template <other_duration Delay>
[[nodiscard]] constexpr time_point deadline_after(time_point now, Delay delay) noexcept {
    const duration whole = saturated(delay);
    return whole == duration::max() ? never : deadline_after(now, whole);
}

/// A source of time: `steady_source` in production, `manual_clock` in tests.
template <class T>
concept time_source = requires(const T& source) {
    { source.now() }
    noexcept->std::same_as<time_point>;
};

/// CLOCK_MONOTONIC itself.
struct steady_source {
    [[nodiscard]] time_point now() const noexcept;
};

static_assert(time_source<steady_source>);

/// Converts time to the unsigned 64-bit ticks that queues count, and back.  A value.
///
/// Tick 0 is the origin, tick k the time origin + k * resolution.  A deadline is rounded up and
/// "now" is rounded down, so a timer may fire up to one resolution late, and:
///   NeverFiresEarly      ticks_floor(now) >= ticks_ceil(d) only if now >= d, for now >= origin.
///   ComesBackNoEarlier   time_of(ticks_ceil(t)) >= t.
///   NeverStaysNever      `never` is tick 2^64 - 1 both ways, and no other time is.
/// Times before the origin are tick 0: the origin must not be later than the first `now`.
///
/// Conversion to ticks costs one division, or none at a resolution of 1 ns.
class tick_scale {
public:
    /// Throws std::invalid_argument if the resolution is below 1 ns, or the origin is `never`.
    constexpr explicit tick_scale(duration resolution, time_point origin = time_point{})
        : origin_(bits(origin)), resolution_(static_cast<std::uint64_t>(resolution.count())) {
        if (resolution < duration(1)) {
            throw std::invalid_argument("verge::tick_scale: a resolution below 1 ns");
        }
        if (origin == never) throw std::invalid_argument("verge::tick_scale: the origin is never");
    }

    /// The same for a resolution in other units: hours::max() is duration::max().
    template <other_duration Resolution>
    constexpr explicit tick_scale(Resolution resolution, time_point origin = time_point{})
        : tick_scale(saturated(resolution), origin) {}

    /// For deadlines: the first tick at or after `when`.
    [[nodiscard]] constexpr std::uint64_t ticks_ceil(time_point when) const noexcept {
        if (when == never) return never_tick;
        const std::uint64_t distance = since_origin(when);
        if (resolution_ == 1) return distance;
        const std::uint64_t whole = distance / resolution_;
        return whole + (whole * resolution_ != distance ? 1 : 0);
    }

    /// For "now": the last tick at or before `when`.
    [[nodiscard]] constexpr std::uint64_t ticks_floor(time_point when) const noexcept {
        if (when == never) return never_tick;
        const std::uint64_t distance = since_origin(when);
        return resolution_ == 1 ? distance : distance / resolution_;
    }

    /// The time of a tick, saturating at last_time; `never` for 2^64 - 1 only.
    [[nodiscard]] constexpr time_point time_of(std::uint64_t tick) const noexcept {
        if (tick == never_tick) return never;
        std::uint64_t distance = 0;
        if (__builtin_mul_overflow(tick, resolution_, &distance)) return last_time;
        if (distance > bits(last_time) - origin_) return last_time;
        return time_point(duration(static_cast<std::int64_t>(origin_ + distance)));
    }

    [[nodiscard]] constexpr duration resolution() const noexcept {
        return duration(static_cast<std::int64_t>(resolution_));
    }
    [[nodiscard]] constexpr time_point origin() const noexcept {
        return time_point(duration(static_cast<std::int64_t>(origin_)));
    }

private:
    static constexpr std::uint64_t never_tick = std::numeric_limits<std::uint64_t>::max();

    // Two's complement: unsigned differences are exact where signed ones would overflow.
    static constexpr std::uint64_t bits(time_point when) noexcept {
        return static_cast<std::uint64_t>(when.time_since_epoch().count());
    }

    // At most 2^64 - 2 for a finite time, so no finite deadline becomes never_tick.
    [[nodiscard]] constexpr std::uint64_t since_origin(time_point when) const noexcept {
        return when <= origin() ? 0 : bits(when) - origin_;
    }

    std::uint64_t origin_;
    std::uint64_t resolution_;
};

/// Nanoseconds since the epoch of CLOCK_MONOTONIC: the ticks of everything that serves threads.
inline constexpr tick_scale nanosecond_ticks{duration(1)};

}  // namespace verge
