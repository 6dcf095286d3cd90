// verge/base/manual_clock.hpp -- virtual time: a clock that only advance() moves.
//
//     verge::manual_clock clock;
//     std::thread sleeper([&] { clock.sleep_until(verge::time_point(10s)); });
//     clock.wait_for_waiters(1);          // the thread sleeps now
//     clock.advance(10s);                 // and wakes, microseconds later
//
// It is for tests and simulations: a day passes in microseconds, and a test can wait until a thread
// sleeps.  It is not for production: advance() is O(waiters).
//
// Guarantees, under the names of the tests that hold them
//   MovesOnlyWhenTold                     by advance() and advance_to(), which add up.
//   NeverGoesBackwards                    a negative advance, or one to the past, does nothing.
//   StopsAtTheLastTime                    it never reaches `never`; sums saturate at last_time.
//   AdvancingWakesExactlyWhatIsDue        when advance() returns, those due no longer count as
//                                         waiters, and no other one was woken.
//   AWakeUpThatRacesTheDeadlineIsKept     park() reports it or leaves it stored in the parker.
//   ASleeperSeesWhatWasWrittenBeforeTheAdvance
//
// Thread safety: all members may be called from any thread at once, except the destructor.
// Destruction: no thread may be asleep in sleep_until() or park() (VERGE_ASSERT), nor enter them.
//   Threads that are due or unparked may not have returned yet: the destructor waits for them.
// Exceptions: the constructor may throw std::bad_alloc; nothing else throws.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/parker.hpp>

#include <cstddef>
#include <memory>

namespace verge {

class manual_clock {
public:
    /// A clock that shows `start`; `never` counts as last_time.
    explicit manual_clock(time_point start = time_point{});
    ~manual_clock();
    manual_clock(const manual_clock&) = delete;
    manual_clock& operator=(const manual_clock&) = delete;

    /// The time it shows.  Never blocks.  Reading the time orders nothing else.
    [[nodiscard]] time_point now() const noexcept;

    /// Moves the time forward and wakes what is then due.
    void advance(duration by) noexcept;
    void advance_to(time_point when) noexcept;

    /// advance() in coarser units, saturating at last_time.
    template <other_duration By>
    void advance(By by) noexcept {
        const duration whole = saturated(by);
        if (whole == duration::max()) {
            advance_to(last_time);
        } else {
            advance(whole);
        }
    }

    /// Blocks the calling thread until the clock shows `when` or later.
    void sleep_until(time_point when) noexcept;

    /// As owner.park(deadline), but by this clock: true if an unpark() ended it, false if the clock
    /// reached the deadline.  Only the parker's owner thread may call it.
    [[nodiscard]] bool park(parker& owner, time_point deadline) noexcept;

    /// How many threads wait in sleep_until() or park() and are not due.  One that was unparked
    /// counts until it has run again.
    [[nodiscard]] std::size_t waiters() const noexcept;

    /// Blocks, in real time, until waiters() >= count.  An advance or unpark after that finds them.
    void wait_for_waiters(std::size_t count) const noexcept;

private:
    struct state;
    std::unique_ptr<state> state_;
};

static_assert(time_source<manual_clock>);

}  // namespace verge
