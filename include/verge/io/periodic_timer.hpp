// verge/io/periodic_timer.hpp -- a timer of an event loop that repeats, and keeps its phase.
//
//     verge::periodic_timer ticks(io, 20ms);                      // examples/loop_periodic.cpp
//     void tick(std::error_code error) {
//         if (error) return;                     // cancelled
//         ...
//         ticks.async_wait(tick);                // the next one, 20 ms after this was due
//     }
//
// A tick is due a whole number of periods after the start, however late handlers run.  The policy
// decides about ticks that have passed before the next wait begins: `skip` drops them, `burst`
// completes one wait at once for each, `delay` starts a new phase.
//
// Not for time-outs, which are set again each time: steady_timer.  Without a loop:
// timer_thread::schedule_every.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/periodic_timer_test.cpp)
//   KeepsItsPhase     SkipDropsMissedTicks     BurstMakesUpForThem     DelayStartsANewPhase
//   ACancelledTickStaysDue          the next wait is for the same tick.
//   MemoryRefusedLeavesItAsItWas    a wait that throws uses up no tick.
//
// Thread safety: one thread at a time, except cancel(), which any thread may call.
// Exceptions: those of basic_waitable_timer; a wait that does not begin uses up no tick.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/queue/periodic.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace verge {

/// A timer that expires every `period` on the steady clock.  Movable; pending waits move along.
template <class Executor = any_io_executor>
class basic_periodic_timer {
public:
    using executor_type = Executor;

    /// The same timer with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_periodic_timer<Other>;
    };

    /// On an executor or a context.  The first tick is one period from now.  A period below 1 ns
    /// counts as 1 ns.
    template <class Place>
    basic_periodic_timer(Place&& where, duration period, missed_ticks policy = missed_ticks::skip)
        : timer_(std::forward<Place>(where)),
          period_(std::max(period, duration(1))),
          policy_(policy) {
        restart();
    }
    /// The same for a period in other units: hours::max() is never.
    template <class Place, other_duration Period>
    basic_periodic_timer(Place&& where, Period period, missed_ticks policy = missed_ticks::skip)
        : basic_periodic_timer(std::forward<Place>(where), saturated(period), policy) {}

    /// The executor that handlers without one of their own are called by.
    [[nodiscard]] executor_type get_executor() const noexcept { return timer_.get_executor(); }

    /// Ends pending waits with operation_aborted, and starts a new phase: the next tick is one
    /// period from now.  With an argument, that is the new period.
    void restart() {
        timer_.expires_after(period_);
        waited_ = false;
    }
    void restart(duration period) {
        period_ = std::max(period, duration(1));
        restart();
    }
    template <other_duration Period>
    void restart(Period period) {
        restart(saturated(period));
    }

    /// When the next tick is due; after a completed wait, when that tick was due.
    [[nodiscard]] time_point expiry() const { return timer_.expiry(); }
    [[nodiscard]] duration period() const noexcept { return period_; }
    /// How many ticks the policy has dropped so far.
    [[nodiscard]] std::uint64_t missed() const noexcept { return missed_; }

    /// Ends pending waits with operation_aborted.  Returns how many.  Their tick stays due: the
    /// next wait is for it.
    std::size_t cancel() { return timer_.cancel(); }

    /// Waits for the next tick: void(std::error_code).  Meant for one wait at a time: waits that
    /// begin before a tick is due share it; one that begins later is for the next tick, and ends
    /// those of the former that have not completed with operation_aborted.
    template <class Token = default_completion_token_t<Executor>>
    auto async_wait(Token&& token = Token()) {
        return async_initiate<Token, void(std::error_code)>(initiate_wait{this}, token);
    }

private:
    struct initiate_wait {
        using executor_type = Executor;
        [[nodiscard]] executor_type get_executor() const noexcept { return timer->get_executor(); }
        template <class Handler>
        void operator()(Handler&& handler) const {
            tick_of next(*timer, steady_source{}.now());
            timer->timer_.async_wait(std::forward<Handler>(handler));
            next.is_waited_for();
        }
        basic_periodic_timer* timer;
    };

    // The tick that a wait is for.  If the present one was waited for and has passed, moves on to
    // the next; moves back if the wait does not begin.
    class tick_of {
    public:
        tick_of(basic_periodic_timer& timer, time_point now)
            : timer_(&timer), last_(timer.expiry()), missed_(timer.missed_) {
            passed_ = timer.waited_ && last_ <= now;
            if (!passed_) return;
            const period_step step =
                next_period(ticks(last_), ticks(timer.period_), ticks(now), timer.policy_);
            timer.missed_ += step.dropped;
            timer.timer_.expires_at(time_point(duration(static_cast<duration::rep>(step.next))));
        }
        ~tick_of() {
            if (timer_ == nullptr || !passed_) return;
            timer_->missed_ = missed_;
            timer_->timer_.expires_at(last_);
        }
        tick_of(const tick_of&) = delete;
        tick_of& operator=(const tick_of&) = delete;
        void is_waited_for() noexcept { std::exchange(timer_, nullptr)->waited_ = true; }

    private:
        basic_periodic_timer* timer_;
        time_point last_;
        std::uint64_t missed_;
        bool passed_;
    };
    static tick ticks(time_point at) noexcept { return ticks(at.time_since_epoch()); }
    static tick ticks(duration d) noexcept { return static_cast<tick>(d.count()); }

    basic_waitable_timer<clock, wait_traits<clock>, Executor> timer_;
    duration period_;
    missed_ticks policy_;
    bool waited_ = false;  // a wait has begun for the present expiry
    std::uint64_t missed_ = 0;
};

/// A periodic timer on any executor.
using periodic_timer = basic_periodic_timer<>;

}  // namespace verge
