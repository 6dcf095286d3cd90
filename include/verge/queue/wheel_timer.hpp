// verge/queue/wheel_timer.hpp -- the timer that a timing_wheel links: derive from it, or embed one.
//
//     struct grenade : verge::wheel_timer { ... };                // examples/game_loop.cpp
//
// A header that only declares objects with timers in them includes this one; code that arms them
// includes verge/queue/timing_wheel.hpp.
//
// Not the right tool for keys that are not ticks: timer_heap has a timer of its own.

#pragma once

#include <verge/queue/tick.hpp>

namespace verge {

namespace detail::queue {

class wheel_core;
class wheel_slots;

struct wheel_link {
    wheel_link* next_;
    wheel_link* prev_;
};

}  // namespace detail::queue

/// The part of a timer that a timing_wheel links.  32 bytes.
///
/// It cannot be copied or moved, because the wheel links its address.  Destroying an armed timer
/// cancels it.
///
/// Thread safety: as the wheel in which it is armed; only that wheel writes it.
/// Exceptions: none.
class wheel_timer : private detail::queue::wheel_link {
public:
    wheel_timer() noexcept : wheel_link{nullptr, nullptr} {}
    ~wheel_timer() {
        if (home_ != nullptr) disarm();
    }
    wheel_timer(const wheel_timer&) = delete;
    wheel_timer& operator=(const wheel_timer&) = delete;

    /// Whether it is in a queue.
    [[nodiscard]] bool armed() const noexcept { return home_ != nullptr; }

    /// The tick it was last armed for.  A deadline in the past counts as the queue's now.
    [[nodiscard]] tick deadline() const noexcept { return deadline_; }

private:
    friend class detail::queue::wheel_core;
    friend class detail::queue::wheel_slots;

    void disarm() noexcept;  // precondition: it is armed

    tick deadline_ = 0;
    detail::queue::wheel_core* home_ = nullptr;  // the wheel in which it is armed
};

static_assert(sizeof(wheel_timer) == 32);

}  // namespace verge
