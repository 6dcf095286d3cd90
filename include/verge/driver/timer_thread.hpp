// verge/driver/timer_thread.hpp -- one background thread that calls functions at given times.
//
//     verge::timer_thread timers;                                 // examples/rpc_timeout.cpp
//
//     auto id = timers.schedule_after(200ms, [call] { call->fail(timed_out); });
//     ...
//     timers.cancel(id);                  // the reply came first: the usual case
//
// It is built for time-outs: most timers are cancelled long before they are due, by many threads at
// once.  So schedule and cancel are cheap, about 40 ns for the pair, and neither ever waits for a
// callback; firing costs more.  Figures: docs/benchmarks.md.
//
// Callbacks run one after another on the timer thread, so each delays the next: they should be
// short.  For those that compute or block, give `run_on` an executor: a thread pool, an event loop
// (examples/slow_callbacks.cpp).
//
// Not the right tool when all timers belong to one event loop (use steady_timer), nor for one
// thread alone (use local_timers).
//
// How it works: verge/driver/timer_service.hpp and docs/design/timer_thread.md.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/histogram.hpp>
#include <verge/base/stats.hpp>
#include <verge/base/timer_id.hpp>
#include <verge/base/timer_stats.hpp>
#include <verge/driver/timer_service_options.hpp>
#include <verge/queue/periodic.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <sys/types.h>

namespace verge {

/// Calls functions at given times.
///
/// Guarantees, each with a test of the same name in tests/unit/driver/timer_thread_test.cpp:
///   NeverFiresEarly        a callback starts at or after its deadline on CLOCK_MONOTONIC.
///   ExactlyOneEnd          a timer runs once, or one cancel() returns `cancelled`, or stop() drops
///                          it; never two of these, never none.
///   KeepsDeadlineOrder     callbacks start in order of deadline; equal deadlines, in order of
///                          schedule calls made by one thread.  (With run_on: are passed to it.)
///   FreesCallbackOnCancel  when cancel() returns `cancelled`, the callback object is destroyed.
///   GoneMeansVisible       after `gone`, the caller sees everything the callback wrote.
///   EarlierDeadlineShortensTheSleep
///   MemoryFollowsLiveTimers   not the rate: a cancelled timer's memory is free for reuse at once.
///   NoCallbackAfterDtor    no callback runs after the destructor has returned, except one that
///                          called the destructor.
///   TheDateIsNotTrusted    setting CLOCK_REALTIME changes nothing.
///   AForkedChildGetsEmptyIds  instead of a hang: it has no timer thread.  A callback that forks
///                          and returns in the child ends its thread there.
///
/// Thread safety: every member function may be called from any thread at any time, also from this
/// object's callbacks; the destructor once, when no other call is running except the callback that
/// calls it.
///
/// Exceptions: a callback that throws ends in options::on_exception, or else in std::terminate.
class timer_thread {
public:
    static constexpr std::size_t unlimited = timer_service_options::unlimited;

    /// Where callbacks run: called on the timer thread with each due callback.  It must not block.
    /// A callback that it destroys without calling counts as dropped.
    using executor = std::function<void(callback)>;

    struct options {
        std::string name = "verge-timer";  ///< Thread name as seen in top and gdb; 15 bytes used.
        std::size_t shards = timer_service_options{}.shards;  ///< 1 to 1024.
        std::size_t reserve = 0;             ///< Timers to allocate for, spread over the shards.
        std::size_t max_timers = unlimited;  ///< Scheduling more returns an empty id.
        /// Biased: schedule and cancel cost a thread about 8 ns less each, and the timer thread
        /// makes one membarrier a wake-up, which interrupts the threads that are running.  Plain:
        /// it does not.  `none` counts as plain.
        shard_locks locks = shard_locks::biased;
        duration kernel_slack = duration(1);  ///< How much later the kernel may wake the thread.
        /// Busy-wait this long before each deadline; costs CPU.  0: the thread measures how late
        /// the kernel wakes it, and sets its wake-up that much earlier; about 1 wake-up in 8 then
        /// comes early and busy-waits for at most 50 us.
        duration spin = duration::zero();
        executor run_on = {};  ///< Empty: callbacks run on the timer thread.
        /// Receives the exceptions of callbacks, on the thread that ran them.  Must not throw.
        std::function<void(std::exception_ptr)> on_exception = {};
    };

    /// A snapshot, for dashboards and tests.
    struct statistics : timer_stats {
        std::uint64_t wakeups = 0;
        std::uint64_t spurious_wakeups = 0;
        std::uint64_t busy_ns = 0;
        histogram_snapshot lateness;

        template <class Visitor>
        void visit(Visitor&& v) const {
            timer_stats::visit(v);
            v("wakeups", stat_kind::counter, wakeups, "times the timer thread woke");
            v("spurious_wakeups", stat_kind::counter, spurious_wakeups, "of these, for nothing");
            v("busy_ns", stat_kind::counter, busy_ns, "nanoseconds the timer thread was awake");
            visit_histogram(v, "lateness_ns", lateness, "nanoseconds from deadline to callback");
        }
    };

    timer_thread();

    /// Starts the thread.  Throws std::system_error if the system refuses one, std::bad_alloc, and
    /// std::invalid_argument for a number of shards that is not in 1 .. 1024.
    explicit timer_thread(const options& opts);

    /// Calls stop().  From inside a callback it does not wait for that callback.
    ~timer_thread();

    timer_thread(const timer_thread&) = delete;
    timer_thread& operator=(const timer_thread&) = delete;

    /// The process-wide instance: constructed on first use, never destroyed.
    static timer_thread& shared();

    /// Sets the options of shared().  False, without effect, if it has been constructed already.
    static bool configure_shared(const options& opts);

    /// Runs `fn` at `deadline`; as soon as possible if that has passed (a deadline before the
    /// thread last collected counts as that time, for order and lateness); not at all for `never`.
    /// The id is empty if max_timers have not ended (one that is running has not), after stop(),
    /// and in a forked child.
    /// Throws std::bad_alloc, in which case nothing was scheduled, and std::invalid_argument if
    /// `fn` is empty.
    timer_id schedule_at(time_point deadline, callback fn);

    /// The same for C: calls fn(arg).
    timer_id schedule_at(time_point deadline, void (*fn)(void*), void* arg);

    /// schedule_at(now + delay).  A negative delay counts as 0.
    timer_id schedule_after(duration delay, callback fn);

    /// The same for a delay in other units: hours::max() is never.
    template <other_duration Delay>
    timer_id schedule_after(Delay delay, callback fn) {
        return schedule_after(saturated(delay), std::move(fn));
    }

    /// Runs `fn` at a time in [earliest, latest] at which one wake-up serves several timers.
    timer_id schedule_between(time_point earliest, time_point latest, callback fn);

    /// Runs `fn` every `period`, at first one period from now, until it is cancelled.  The phase is
    /// kept exactly; `policy` decides about missed runs.  A run begins only after the previous one
    /// has ended.  A period below 1 ns counts as 1 ns.
    timer_id schedule_every(duration period, callback fn, missed_ticks policy = missed_ticks::skip);

    /// The same for a period in other units: hours::max() is never.
    template <other_duration Period>
    timer_id schedule_every(Period period, callback fn, missed_ticks policy = missed_ticks::skip) {
        return schedule_every(saturated(period), std::move(fn), policy);
    }

    /// Prevents the timer from running, if it has not begun.  Does not wait: on `running` the
    /// callback may outlive this call, so its captures must too.  A periodic timer cancelled while
    /// it runs (`running`) does not run again.
    cancel_result cancel(timer_id id) noexcept;

    /// As cancel; if the callback is running, waits until it has ended and returns `gone`.  Called
    /// from that callback, returns `running`.
    cancel_result cancel_and_wait(timer_id id) noexcept;

    /// Gives a timer that has not begun a new deadline, in O(1); the id stays.
    reschedule_result reschedule(timer_id id, time_point deadline) noexcept;

    /// How long until the timer is due: 0 if it is due, duration::max() for never; nothing if it is
    /// running or over.
    [[nodiscard]] std::optional<duration> remaining(timer_id id) const noexcept;

    /// Refuses new timers, drops those that have not begun, and waits for running callbacks; called
    /// from inside one it does not wait.  Idempotent, and safe from several threads.
    void stop() noexcept;

    /// Returns memory that no timer uses to the system.  Holds each shard's lock for about 8 ns per
    /// timer of its peak size.
    void trim() noexcept;

    [[nodiscard]] statistics stats() const;

    /// The timer thread, for pthread_setschedparam and the like.
    [[nodiscard]] pthread_t native_handle() const noexcept;

    /// Whether the calling thread is the timer thread.
    [[nodiscard]] bool on_timer_thread() const noexcept;

private:
    class core;  // src/driver/timer_thread.cpp; closures in an executor may outlive this object
    std::shared_ptr<core> core_;
};

}  // namespace verge
