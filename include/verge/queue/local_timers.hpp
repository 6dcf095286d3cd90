// verge/queue/local_timers.hpp -- ready-made timers for one thread: callbacks, ids, your own clock.
//
//     verge::local_timers timers;                                 // examples/simulation.cpp
//
//     timers.schedule_after(3min, [&] { serve(next_customer); });
//     while (timers.next_expiry() != verge::never)                          // in virtual time
//         timers.run_due(timers.next_expiry());
//
//     while (playing) timers.run_due(now());                                // or in a real loop
//
// It is built for game loops and simulations: all callbacks run inside run_due(), on the calling
// thread, in the order of deadlines.  The caller passes the time, which may be virtual.
//
// Not the right tool from several threads (use timer_thread), nor where memory is tight: an
// intrusive timing_wheel needs 32 bytes per timer, this one about 128.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/timer_id.hpp>
#include <verge/base/timer_stats.hpp>
#include <verge/queue/periodic.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace verge {

/// Calls functions at given times, inside run_due(now).
///
/// Guarantees, each with a test of that name in tests/unit/queue/local_timers_test.cpp:
///   NeverRunsEarly            deadlines are rounded up to the resolution, now is rounded down.
///   RunsWhatItAnnounces       what next_expiry() says, run_due() of it runs: one callback or more,
///                             unless it says `never`.  So no finite deadline is out of reach, and
///                             the loop above ends unless its callbacks or periodic timers go on.
///   KeepsDeadlineOrder        equal deadlines in the order of scheduling.
///   FreesCallbackOnCancel     when cancel() returns `cancelled`, the callback is destroyed.
///   StaleIdsAreHarmless       an id of an ended timer, or of another object, names no timer.
///   CallbackMayDoAnything     it may schedule, cancel (itself: `running`), clear() and destroy the
///                             object; so may the destructor of what it captured.
///   SurvivesAThrowingCallback the exception leaves run_due(); the timer has ended, the others
///                             have not.  This includes a periodic timer.
///
/// Thread safety: none; one thread at a time.
/// Exceptions: scheduling throws std::bad_alloc, and std::invalid_argument for an empty function,
/// and then nothing was scheduled.
class local_timers {
public:
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    struct options {
        duration resolution = duration(1);   ///< The length of a tick: a coarser one is cheaper.
        time_point start = {};               ///< The time until the first run_due().
        std::size_t reserve = 0;             ///< Timers that can be pending without an allocation.
        std::size_t max_timers = unlimited;  ///< Scheduling more returns an empty id.
    };

    local_timers();

    /// Throws std::invalid_argument for a resolution below 1 ns and a start of `never`, and
    /// std::bad_alloc.
    explicit local_timers(const options& opts);

    /// Drops pending timers.  May be called from a callback.
    ~local_timers();

    local_timers(const local_timers&) = delete;
    local_timers& operator=(const local_timers&) = delete;

    /// Runs `fn` at the first run_due(now) with now >= deadline; never if that is `never`.
    /// The id is empty if max_timers are pending, or if this object is being destroyed.  A periodic
    /// timer that is running counts as pending.  Throws std::invalid_argument if `fn` is empty.
    timer_id schedule_at(time_point deadline, callback fn);

    /// schedule_at(now() + delay).  A negative delay counts as 0.
    timer_id schedule_after(duration delay, callback fn);

    /// The same for a delay in other units: hours::max() is never.
    template <other_duration Delay>
    timer_id schedule_after(Delay delay, callback fn) {
        return schedule_at(deadline_after(now(), delay), std::move(fn));
    }

    /// Runs `fn` at a time in [earliest, latest] that timers with slack share.  With a finite
    /// `earliest` it does run, also if `latest` is `never`.
    timer_id schedule_between(time_point earliest, time_point latest, callback fn);

    /// Runs `fn` every `period`, at first one period from now(), until it is cancelled.  The period
    /// is rounded up to a multiple of the resolution, and is at least that; duration::max() is
    /// never, and so is a run that would come after last_time.
    timer_id schedule_every(duration period, callback fn, missed_ticks policy = missed_ticks::skip);

    /// The same for a period in other units: hours::max() is never.
    template <other_duration Period>
    timer_id schedule_every(Period period, callback fn, missed_ticks policy = missed_ticks::skip) {
        return schedule_every(saturated(period), std::move(fn), policy);
    }

    /// Prevents the timer from running.  `running` from inside its own callback; then a periodic
    /// one has no further runs.
    cancel_result cancel(timer_id id) noexcept;

    /// Gives a pending timer a new deadline; the id stays.
    reschedule_result reschedule(timer_id id, time_point deadline) noexcept;

    /// How long until the timer is due: 0 if it is due, `duration::max()` for never and where a
    /// duration would overflow; nothing if it is running or over.
    [[nodiscard]] std::optional<duration> remaining(timer_id id) const noexcept;

    /// Moves time to `now` and runs due timers, at most `budget` callbacks.  Returns how many; if
    /// that is `budget`, more may be due.  Called from a callback it does nothing and returns 0.
    /// `never` counts as last_time: time ends there, and every finite deadline is due.
    std::size_t run_due(time_point now, std::size_t budget = no_budget);

    /// A time not after the next deadline, to sleep until; `never` if nothing will run.  O(1).
    /// After a cancel it may be earlier than the next deadline; run_due() of it then runs nothing,
    /// and the bound moves on.
    [[nodiscard]] time_point next_bound() const noexcept;

    /// The next deadline, exactly, as rounded up to the resolution, but at most last_time; `never`
    /// if nothing will run.  After a cancel of the timer that comes first, one call may walk over
    /// many pending timers (milliseconds for a million); further calls are O(1).  A loop that often
    /// cancels that timer is better driven by next_bound().
    [[nodiscard]] time_point next_expiry() const noexcept;

    /// The latest time passed to run_due(), at most last_time.
    [[nodiscard]] time_point now() const noexcept;

    [[nodiscard]] std::size_t size() const noexcept;  ///< Timers pending, those for `never` too.

    /// Drops pending timers, and the further runs of a periodic timer that is running.  Timers that
    /// the destructors of the callbacks schedule meanwhile are not dropped.
    void clear() noexcept;

    /// Returns memory that no timer uses to the system.
    void trim() noexcept;

    [[nodiscard]] timer_stats stats() const noexcept;

private:
    class impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace verge
