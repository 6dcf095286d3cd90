// verge/queue/timing_wheel.hpp -- a hierarchical timing wheel: arm and cancel in O(1), any horizon.
//
//     struct grenade : verge::wheel_timer { ... };
//     verge::timing_wheel<grenade> wheel(now);                    // examples/game_loop.cpp
//
//     wheel.arm_after(thrown, 5000);
//     ...
//     wheel.advance(now, [](grenade& g) { g.explode(); });        // in the user's own loop
//
// It is built for time-outs: timers that are armed in great numbers and nearly all cancelled.  Arm
// and cancel touch a few words, whatever the number of timers; a timer that fires is cascaded at
// most once per level (about twice at 1 ms ticks, five or six times at 1 ns).  It is exact: no
// timer fires a tick early or late, at any distance up to 2^64 - 2 ticks.
//
// Not the right tool when the clock does not count integers (use timer_heap), nor from several
// threads at once (use timer_service or timer_thread).
//
// How it works: docs/design/timing_wheel.md.  Its invariants: wheel_slots.hpp, wheel_core.hpp and
// wheel_precascade.hpp in verge/queue/detail/.

#pragma once

#include <verge/queue/detail/wheel_core.hpp>
#include <verge/queue/tick.hpp>
#include <verge/queue/wheel_timer.hpp>

#include <concepts>
#include <cstddef>
#include <optional>

namespace verge {

/// An ordered set of timers that the user owns.
///
/// Guarantees, each held for timing_wheel and timer_heap alike by a test of that name in
/// tests/unit/queue/timer_queue_test.cpp:
///   FiresAtItsTick            advance(now) fires exactly the timers with deadline <= now.
///   KeepsDeadlineOrder        in order of deadline inside one advance of any size, also when it is
///                             resumed after a budget; equal deadlines in the order of arming.
///   PastDeadlineCountsAsNow   a deadline at or before now counts as armed at now, and fires on the
///                             next advance.
///   RearmInCallbackWaitsForTheNextAdvance   a timer armed by a callback for now or before fires on
///                             the next advance, so no timer can make an advance endless.
///   TimeGoingBackwardsIsIgnored   advance(earlier) acts as advance(now()).
///   NeverNeverFires           a timer armed for never_tick is armed, counted, and never due.
///   CallbackMayDoAnything     a callback may arm, cancel and destroy timers, itself included,
///                             clear() the queue and destroy it.
///   SurvivesAThrowingCallback the exception leaves advance(); what was not fired stays armed.
///   DestroyedTimerIsCancelled and so are all timers of a queue that is destroyed.
///   AdvanceOverAnySpanIsCheap a span costs O(levels + timers met), not O(ticks).
///
/// Thread safety: none; one thread at a time.
/// Exceptions: nothing throws but what a callback throws.  Nothing allocates.
template <class T = wheel_timer>
class timing_wheel {
    static_assert(std::derived_from<T, wheel_timer>);

public:
    using timer_type = T;
    using key_type = tick;

    /// The wheel's time is `start` until the first advance().
    explicit timing_wheel(tick start = 0) noexcept : core_(start) {}

    /// Arms the timer for `deadline`, also if it is armed already: here, where it then moves, or in
    /// another wheel, which then loses it.
    void arm_at(T& timer, tick deadline) noexcept { core_.arm(timer, deadline); }

    /// arm_at(now() + delay), or never if that overflows.
    void arm_after(T& timer, tick delay) noexcept {
        core_.arm(timer, tick_after(core_.now(), delay));
    }

    /// The same for a signed delay: a negative one counts as 0.
    template <std::signed_integral Delay>
    void arm_after(T& timer, Delay delay) noexcept {
        core_.arm(timer, tick_after(core_.now(), delay));
    }

    /// Arms the timer for the roundest tick in [earliest, latest], so that timers with slack share
    /// wake-ups.  A timer already armed here for a tick in that range is not changed.  If
    /// latest < earliest, it is armed for `earliest`.
    void arm_in_range(T& timer, tick earliest, tick latest) noexcept {
        if (core_.owns(timer) && timer.deadline() >= earliest && timer.deadline() <= latest) return;
        if (earliest < core_.now()) earliest = core_.now();
        core_.arm(timer, roundest_tick(earliest, latest));
    }

    /// As arm_at, for a periodic timer inside its own callback: a deadline after the one that is
    /// firing may fire in the same advance, in deadline order.  So a late timer can catch up on its
    /// missed ticks; it cannot make an advance endless.
    void arm_next(T& timer, tick deadline) noexcept { core_.arm_next(timer, deadline); }

    /// Disarms the timer.  Returns false if it was not armed here: harmless.
    bool cancel(T& timer) noexcept {
        if (!core_.owns(timer)) [[unlikely]]
            return false;
        core_.remove(timer);
        return true;
    }

    /// Moves time to `now` and calls fire(T&) for each timer that is due, at most `budget` of them.
    /// Returns how many; if that is `budget`, more may be due, and the next call goes on there.
    /// A timer is disarmed before its call.  Called from a callback it does nothing and returns 0.
    template <std::invocable<T&> Fire>
    std::size_t advance(tick now, Fire&& fire, std::size_t budget = no_budget) {
        return core_.advance(
            now, [&fire](wheel_timer& timer) { fire(static_cast<T&>(timer)); }, budget);
    }

    /// A lower bound of the next deadline, for a driver to sleep until.  It is exact unless the
    /// first timer of a slot was cancelled, or a slot of tens of thousands is being pre-cascaded.
    /// None when nothing will ever fire.  O(1).
    [[nodiscard]] std::optional<tick> next_bound() const noexcept { return core_.next_bound(); }

    /// The next deadline, exactly.  If the first timer of a slot was cancelled, the next call walks
    /// the slot, and remembers what it found: then next_bound() is exact, too.
    [[nodiscard]] std::optional<tick> next_expiry() const noexcept { return core_.next_expiry(); }

    /// The latest time passed to advance().
    [[nodiscard]] tick now() const noexcept { return core_.now(); }

    /// How many timers are armed here, those for never_tick included.
    [[nodiscard]] std::size_t size() const noexcept { return core_.size(); }
    [[nodiscard]] bool empty() const noexcept { return core_.size() == 0; }

    /// Disarms all.
    void clear() noexcept { core_.clear(); }

    /// Disarms some armed timer and returns it, or nullptr if there is none.  O(1).  Call it
    /// repeatedly to empty a queue whose timers own something.
    [[nodiscard]] T* take_any() noexcept { return static_cast<T*>(core_.take_any()); }

    /// Calls visit(const T&) for each armed timer, in no promised order.  It must not change the
    /// wheel, nor call next_expiry().
    template <std::invocable<const T&> Visit>
    void for_each(Visit&& visit) const {
        core_.for_each([&visit](const wheel_timer& timer) { visit(static_cast<const T&>(timer)); });
    }

    /// Verifies every invariant: nullptr, or the name of the one that is broken.  For tests: O(n).
    [[nodiscard]] const char* check() const noexcept { return core_.check(); }

private:
    friend struct detail::queue::wheel_access;

    detail::queue::wheel_core core_;
};

}  // namespace verge
