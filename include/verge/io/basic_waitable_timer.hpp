// verge/io/basic_waitable_timer.hpp -- a timer of an event loop: waits, and can be cancelled.
//
//     verge::steady_timer timer(io, 50ms);                        // examples/loop_timer.cpp
//     timer.async_wait([](std::error_code error) {
//         if (!error) ...                     // it has expired; else operation_aborted: cancelled
//     });
//     timer.expires_after(1s);                // ends pending waits, sets a new expiry
//     timer.cancel();
//
// Names and meaning are Asio's.  steady_timer, system_timer, high_resolution_timer and
// boottime_timer are aliases, each in a header of its own.  It is built for a time-out per request,
// most of which are cancelled: cancelling a steady_timer leaves its slot armed, and the next wait
// of that timer reuses the slot, so that the pair takes the timer's own lock and no other.  The
// price is at most one wake-up of the loop, at the expiry of a wait that was cancelled.
//
// Not for functions that are called at given times without a loop: that is timer_thread.  Not for
// work that repeats: periodic_timer keeps its phase.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/timer_test.cpp)
//   NeverCompletesEarly              a wait completes without error at or after the expiry.
//   EveryWaitCompletesOnce           expired or operation_aborted; never inside async_wait itself.
//   WaitsCompleteInOrder             those of one timer in the order they began.
//   CancelCountsWhatItEnds           as do cancel_one, expires_at and expires_after.
//   MovingTakesWaitsAlong            also to a timer with another type of executor.
//   MaxNeverComes                    time_point::max() is never reached; MinIsDue: min() at once.
//   MaxWakesNobody                   a wait for it takes no slot of the timer service.
//   ANewDateCountsAtOnce             on system_clock only: setting the date moves the expiry.
//   AUsersClockDecides               a clock with WaitTraits of its own.
//
// Thread safety: unlike Asio's, one timer may be used by several threads at once: expires_at,
// expires_after, expiry, cancel, cancel_one, async_wait and wait.  Each call takes effect at one
// moment, and the order of these moments decides: a wait is for the expiry that is set when it
// begins, and a new expiry ends all waits that began before it.  So an async_wait that races with
// expires_after in another thread is aborted, or is for the new expiry, and never for the old one;
// of two new expiries the last one stays; where cancel() races with the expiry, exactly one of the
// two ends each wait.  Construction, destruction, moves and assignment need exclusive access.
// Cancellation through a slot follows verge/io/cancellation.hpp: not at the same time as the wait
// begins or its handler runs.
//
// Exceptions: async_wait throws std::bad_alloc and what the handler's move throws, and then there
// is no wait.  A wait that reuses the slot of a cancelled one needs a new slot if that one is due
// before the expiry; if memory is refused then, the wait ends with operation_aborted.  wait()
// throws nothing: it only sleeps.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/fast_clock.hpp>
#include <verge/io/any_io_executor.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/detail/sleep_for.hpp>
#include <verge/io/detail/timer_handle.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/thread_pool.hpp>
#include <verge/io/wait_traits.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

template <class T, class Own>
concept duration_other_than = is_chrono_duration<T> && !std::same_as<T, Own>;

}  // namespace detail::io

/// A timer: an expiry, and any number of waits for it.  The execution context of its executor must
/// outlive it.  `WaitTraits` converts times of `Clock` to real time, for clocks that run
/// differently: verge/io/wait_traits.hpp.  The default executor works with any context; with
/// io_context::executor_type the timer is smaller and its calls are direct.
template <class Clock, class WaitTraits = wait_traits<Clock>, class Executor = any_io_executor>
class basic_waitable_timer {
    using handle_type = detail::io::timer_handle<Clock, WaitTraits, Executor>;

public:
    using executor_type = Executor;
    using clock_type = Clock;
    using duration = typename Clock::duration;
    using time_point = typename Clock::time_point;
    using traits_type = WaitTraits;

    /// The same timer with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_waitable_timer<Clock, WaitTraits, Other>;
    };

    /// A timer on an executor, or on the executor of a context.  Without an expiry, it is the
    /// clock's epoch: a wait is due at once.  With a time point, or a delay from now, that is the
    /// expiry; a delay may be of any unit, and saturates.  Throws std::bad_alloc, and
    /// std::system_error if the context's reactor cannot be made.
    explicit basic_waitable_timer(const Executor& ex) : handle_(ex) {}
    basic_waitable_timer(const Executor& ex, const time_point& expiry) : handle_(ex) {
        set(expiry, {});
    }
    basic_waitable_timer(const Executor& ex, const duration& delay) : handle_(ex) {
        set(after(delay), {});
    }
    template <detail::io::duration_other_than<duration> Delay>
    basic_waitable_timer(const Executor& ex, const Delay& delay)
        : basic_waitable_timer(ex, saturated_to<duration>(delay)) {}
    template <detail::io::context_with_executor Context>
    explicit basic_waitable_timer(Context& context) : handle_(context.get_executor()) {}
    template <detail::io::context_with_executor Context>
    basic_waitable_timer(Context& context, const time_point& expiry)
        : handle_(context.get_executor()) {
        set(expiry, {});
    }
    template <detail::io::context_with_executor Context>
    basic_waitable_timer(Context& context, const duration& delay)
        : handle_(context.get_executor()) {
        set(after(delay), {});
    }
    template <detail::io::context_with_executor Context,
              detail::io::duration_other_than<duration> Delay>
    basic_waitable_timer(Context& context, const Delay& delay)
        : basic_waitable_timer(context, saturated_to<duration>(delay)) {}

    /// Takes the expiry and the pending waits of `other`, which has no waits afterwards and may be
    /// used again.  If memory for the new slot is refused, the waits end with operation_aborted.
    basic_waitable_timer(basic_waitable_timer&& other) : handle_(std::move(other.handle_)) {}
    template <class Other>
    requires std::is_convertible_v<Other, Executor> basic_waitable_timer(
        basic_waitable_timer<Clock, WaitTraits, Other>&& other)  // NOLINT: as Asio
        : handle_(std::move(other.handle_)) {}
    /// Ends its own waits with operation_aborted, then takes those of `other`.
    basic_waitable_timer& operator=(basic_waitable_timer&& other) {
        handle_.assign(std::move(other.handle_));
        return *this;
    }
    template <class Other>
    requires std::is_convertible_v<Other, Executor> basic_waitable_timer& operator=(
        basic_waitable_timer<Clock, WaitTraits, Other>&& other) {
        handle_.assign(std::move(other.handle_));
        return *this;
    }
    /// Ends all waits with operation_aborted.  Their handlers still run, in the loop: they must not
    /// use the timer.
    ~basic_waitable_timer() { handle_.destroy(); }

    /// The executor that handlers without one of their own are called by.
    [[nodiscard]] const executor_type& get_executor() const noexcept { return handle_.executor(); }

    /// Ends pending waits with operation_aborted.  Returns how many; waits that have expired, and
    /// whose handlers are queued in the loop, are not among them.  The expiry stays.
    std::size_t cancel() {
        handle_.track("cancel");
        return handle_.home().cancel(handle_.timer());
    }
    /// Ends the oldest pending wait with operation_aborted.  Returns 1, or 0 if there is none.
    std::size_t cancel_one() {
        handle_.track("cancel_one");
        return handle_.home().cancel_one(handle_.timer());
    }

    /// The expiry that was set last, whether it has passed or not.
    [[nodiscard]] time_point expiry() const { return handle_.home().expiry(handle_.timer()); }

    /// Sets the expiry, and ends pending waits as cancel() does.  Returns how many.  A time that
    /// has passed is allowed: the next wait is due at once.
    std::size_t expires_at(const time_point& expiry) {
        return expires_at(expiry, verge::duration::zero());
    }
    /// expires_at(now + delay).  The sum saturates at time_point::max(), which is never, and at
    /// min().  On the steady clock `now` comes from the fast clock, which is up to 3 us ahead: the
    /// expiry is never early.
    std::size_t expires_after(const duration& delay) { return expires_at(after(delay)); }
    template <detail::io::duration_other_than<duration> Delay>
    std::size_t expires_after(const Delay& delay) {
        return expires_after(saturated_to<duration>(delay));
    }

    /// The same with slack, which Asio does not have: waits complete at the expiry or up to `slack`
    /// later, where one wake-up of the loop serves several timers.  `slack` is rounded down to a
    /// power of two nanoseconds.  On the steady clock; other clocks ignore it.
    std::size_t expires_at(const time_point& expiry, verge::duration slack) {
        handle_.track("expires_at");
        return set(expiry, slack);
    }
    std::size_t expires_after(const duration& delay, verge::duration slack) {
        return expires_at(after(delay), slack);
    }

    /// Blocks the calling thread until the expiry.  The expiry is read again after each sleep: one
    /// that another thread moves to later is waited for, one that it moves to earlier does not end
    /// the sleep.  cancel() does not end it either.  Not for a handler: nothing else runs on that
    /// thread meanwhile.
    void wait() {
        for (;;) {
            const time_point until = expiry();
            const time_point now = Clock::now();
            if (until <= now) return;
            // Not longer than a day: a clock that was set is read again then.
            detail::io::sleep_for(std::min<verge::duration>(
                detail::io::time_left<Clock, WaitTraits>(until, now), std::chrono::hours(24)));
        }
    }
    void wait(std::error_code& error) {
        wait();
        error.clear();
    }

    /// Begins a wait for the present expiry.  Completes with void(std::error_code): no error at or
    /// after the expiry, operation_aborted if the wait is cancelled, or if the timer is destroyed
    /// or gets a new expiry.  The handler is called through its associated executor, never inside
    /// this call.  The pending wait keeps run() from returning.
    template <class Token = default_completion_token_t<Executor>>
    auto async_wait(Token&& token = Token()) {
        return async_initiate<Token, void(std::error_code)>(initiate_wait{this}, token);
    }

private:
    template <class, class, class>
    friend class basic_waitable_timer;

    struct initiate_wait {
        using executor_type = Executor;
        [[nodiscard]] executor_type get_executor() const noexcept { return timer->get_executor(); }
        template <class Handler>
        void operator()(Handler&& handler) const {
            std::decay_t<Handler> own(std::forward<Handler>(handler));
            timer->handle_.wait(own);
        }
        basic_waitable_timer* timer;
    };

    std::size_t set(const time_point& expiry, verge::duration slack) {
        return handle_.home().expires_at(handle_.timer(), expiry, slack);
    }

    // now + delay, stopping at the first and the last time.  On the steady clock by the quick
    // clock, which is up to 3 us ahead: never early.
    static time_point after(const duration& delay) {
        if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
            return verge::deadline_after(detail::upper_now(), delay);
        } else {
            const time_point now = Clock::now();
            if (delay >= duration::zero()) {
                if ((time_point::max)() - delay < now) return (time_point::max)();
            } else if ((time_point::min)() - delay > now) {
                return (time_point::min)();
            }
            return now + delay;
        }
    }

    handle_type handle_;
};

}  // namespace verge
