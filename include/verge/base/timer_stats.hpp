// verge/base/timer_stats.hpp -- what every set of timers counts, and its snapshot.
//
//     const verge::timer_stats now = timers.stats();       // timer_thread, timer_service,
//     local_timers assert(now.scheduled == now.cancelled + now.fired + now.dropped + now.pending +
//     running);
//
// The equation holds for one-shot timers: each of them is counted as scheduled once, and then under
// exactly one of cancelled, fired, dropped and pending.  A periodic timer counts as fired at each
// run.  verge/base/stats.hpp says how `visit` exports the numbers.
//
// Thread safety: values.

#pragma once

#include <verge/base/stats.hpp>

#include <cstdint>

namespace verge {

/// Numbers that only grow.
struct timer_counters {
    std::uint64_t scheduled = 0;    ///< Timers that were armed.
    std::uint64_t cancelled = 0;    ///< Timers that were cancelled before they began.
    std::uint64_t rescheduled = 0;  ///< Times a timer got a new deadline.
    std::uint64_t fired = 0;        ///< Callbacks that began.
    std::uint64_t dropped = 0;      ///< Timers that a stop, a clear or a destructor ended.
    std::uint64_t rejected = 0;     ///< Timers that were refused: too many, or stopped.

    timer_counters& operator+=(const timer_counters& other) noexcept {
        scheduled += other.scheduled;
        cancelled += other.cancelled;
        rescheduled += other.rescheduled;
        fired += other.fired;
        dropped += other.dropped;
        rejected += other.rejected;
        return *this;
    }
};

/// A snapshot, for dashboards and tests.
struct timer_stats : timer_counters {
    std::uint64_t pending = 0;  ///< Timers that have not begun.

    template <class Visitor>
    void visit(Visitor&& v) const {
        v("scheduled", stat_kind::counter, scheduled, "timers scheduled");
        v("cancelled", stat_kind::counter, cancelled, "timers cancelled before they began");
        v("rescheduled", stat_kind::counter, rescheduled, "timers given a new deadline");
        v("fired", stat_kind::counter, fired, "callbacks begun");
        v("dropped", stat_kind::counter, dropped, "timers ended by stop, clear or destruction");
        v("rejected", stat_kind::counter, rejected, "timers refused: full, or stopped");
        v("pending", stat_kind::gauge, pending, "timers that have not begun");
    }
};

}  // namespace verge
