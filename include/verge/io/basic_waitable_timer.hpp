// verge/io/basic_waitable_timer.hpp -- a timer of an event loop: waits, and can be cancelled.
//
//     verge::steady_timer timer(io, 50ms);                        // examples/loop_timer.cpp
//     timer.async_wait([](std::error_code error) {
//         if (!error) ...                     // it is time; else operation_aborted: cancelled
//     });
//     timer.expires_after(1s);                // ends pending waits, sets a new time
//     timer.cancel();
//
// By name and meaning Asio's.  steady_timer, system_timer, high_resolution_timer and boottime_timer
// are aliases, each in a header of its own.  Arming and cancelling is made to be cheap: a time-out
// a request, most of which are cancelled.  The loop's other timers share no lock with it.
//
// Not for functions that are called at given times without a loop: that is timer_thread.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/timer_test.cpp)
//   NeverCompletesEarly              a wait completes without error at or after the expiry.
//   EveryWaitCompletesOnce           expired or operation_aborted; never in async_wait itself.
//   WaitsCompleteInOrder             those of one timer in the order they began.
//   CancelCountsWhatItEnds           as do cancel_one, expires_at and expires_after.
//   MovingTakesWaitsAlong            also to a timer with another type of executor.
//   MaxNeverComes                    time_point::max() is never reached; MinIsDue: min() at once.
//   MaxWakesNobody                   a wait for it takes no slot of the timer service.
//   ANewDateCountsAtOnce             for system_timer, and for it alone.
//   AUsersClockDecides               a clock with WaitTraits of its own.
//
// Thread safety: unlike Asio's, one timer may be used by several threads at once: expires_at,
// expires_after, expiry, cancel, cancel_one, async_wait and wait.  Each takes effect at one moment,
// and the moments decide: a wait is for the expiry that is set when it begins, and a new expiry
// ends all waits that began before it.  So async_wait against expires_after in another thread is
// ended, or is for the new expiry, and never for the old one; of two new expiries the last one
// stays; of cancel() and an expiry that comes at the same time one ends each wait, never both.
// Construction, destruction, moves and assignment alone.
// Cancellation through a slot: as verge/io/cancellation.hpp says.
// Exceptions: async_wait throws std::bad_alloc and what the handler's move throws, and then there
// is no wait.  wait() throws nothing: it only sleeps.

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
#include <cstddef>
#include <type_traits>
#include <utility>

namespace verge {

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

    /// A timer without a time: it is due.
    explicit basic_waitable_timer(const Executor& ex) : handle_(ex) {}
    basic_waitable_timer(const Executor& ex, const time_point& expiry) : handle_(ex) {
        set(expiry, {});
    }
    basic_waitable_timer(const Executor& ex, const duration& delay) : handle_(ex) {
        set(after(delay), {});
    }
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

    /// Pending waits go with it.  `other` has no waits then, and may be used again.
    basic_waitable_timer(basic_waitable_timer&& other) : handle_(std::move(other.handle_)) {}
    template <class Other>
    requires std::is_convertible_v<Other, Executor> basic_waitable_timer(
        basic_waitable_timer<Clock, WaitTraits, Other>&& other)  // NOLINT: as Asio
        : handle_(std::move(other.handle_)) {}
    /// Ends the waits that this one had.
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
    /// Ends all waits with operation_aborted.
    ~basic_waitable_timer() { handle_.destroy(); }

    [[nodiscard]] const executor_type& get_executor() const noexcept { return handle_.executor(); }

    /// Ends pending waits with operation_aborted.  Returns how many; those that have expired, and
    /// whose handlers are to run already, are not among them.
    std::size_t cancel() {
        handle_.track("cancel");
        return handle_.home().cancel(handle_.timer());
    }
    /// Ends the oldest wait.
    std::size_t cancel_one() {
        handle_.track("cancel_one");
        return handle_.home().cancel_one(handle_.timer());
    }

    [[nodiscard]] time_point expiry() const { return handle_.home().expiry(handle_.timer()); }

    /// Sets the expiry, and ends pending waits as cancel() does.
    std::size_t expires_at(const time_point& expiry) {
        return expires_at(expiry, verge::duration::zero());
    }
    std::size_t expires_after(const duration& delay) { return expires_at(after(delay)); }

    /// The same with slack, which Asio has not: waits complete at the expiry or up to `slack`
    /// later, where one wake-up of the loop serves several timers.  On the steady clock; others
    /// ignore it.
    std::size_t expires_at(const time_point& expiry, verge::duration slack) {
        handle_.track("expires_at");
        return set(expiry, slack);
    }
    std::size_t expires_after(const duration& delay, verge::duration slack) {
        return expires_at(after(delay), slack);
    }

    /// Blocks until the expiry.
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

    /// Calls a handler, void(std::error_code), at the expiry or with operation_aborted.
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
