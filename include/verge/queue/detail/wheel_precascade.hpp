// verge/queue/detail/wheel_precascade.hpp -- empties a long slot of a timing wheel in small steps,
// before it is due.
//
// Why.  Emptying a slot takes time proportional to its timers: 100,000 timers in one slot stall the
// wheel for 10 ms, in which nothing fires.  So when a slot of some level has proved long, the next
// slot of that level is pre-cascaded: each advance moves a few of its timers to the slots of the
// separate level `staging`.  When the slot's time comes, these lists only have to be spliced into
// the level below.  Each timer still moves once per level, only earlier.
//
// When.
//   - An emptied slot of more than 16384 timers (1 to 2 ms) makes its level "long".
//     A pre-cascaded slot of half as many timers, or fewer, ends that.
//   - Only the very next slot of a level is pre-cascaded, and only while its start is in the
//     future.  Timers farther away may still be cancelled, and moving them would be wasted; a slot
//     that has started may have no due timer, and stays whole until its first one is due.
//   - If an earlier slot comes into use, the one that was begun is restored.  Otherwise a single
//     timer some hours away would block pre-cascading until then.
//
// Invariant (check() verifies it; W1 to W3 are in wheel_slots.hpp, W4 and W5 in wheel_core.hpp)
//   W6  The level `staging` holds timers whose place by W1 is slot_, in the slots that they will
//       have one level below that.  They come before timers with equal deadlines in the list at
//       slot_ itself: work() takes from the front of that list, and new timers go to its back.
//
// Costs.  An advance pays one comparison when no level is long, else 3 us for 32 timers.  Arm and
// cancel pay nothing: they treat a slot of `staging` like any other.

#pragma once

#include <verge/queue/detail/wheel_slots.hpp>
#include <verge/queue/tick.hpp>

#include <cstddef>

namespace verge::detail::queue {

class wheel_precascade {
public:
    using place = wheel_slots::place;
    using shape = wheel_slots::shape;

    // A slot was emptied, all at once, of so many timers.
    void was_emptied(place at, std::size_t timers) noexcept {
        if (timers > long_slot_) [[unlikely]]
            mark_long(shape::level_of(at));
    }

    // Moves a few more timers of the next slot that is likely to be long.  Called after an advance
    // to `now` that has caught up.
    void work(wheel_slots& slots, tick now) noexcept {
        if (long_level_ != shape::levels) [[unlikely]]
            move_some(slots, now);
    }

    // Whether a slot is pre-cascaded that is the first in use.  Precondition: some slot is in use.
    [[nodiscard]] bool is_first(const wheel_slots& slots) const noexcept {
        return slots.staging_in_use() && slot_ <= slots.first_place();
    }

    // The slot that is pre-cascaded.  Precondition: staging_in_use().
    [[nodiscard]] place slot() const noexcept { return slot_; }

    // Moves elapsed() to the start of the slot, splices its lists into the level below, and files
    // the rest.  Timers that are due then go to `due`.  Precondition: is_first().
    void enter(wheel_slots& slots, wheel_link& due) noexcept;

    // A tick not after the first deadline of the slot.  Precondition: is_first().
    [[nodiscard]] tick bound(const wheel_slots& slots) const noexcept;

    // The first deadline of the slot.  Precondition: is_first().
    [[nodiscard]] tick least(const wheel_slots& slots) const noexcept;

    // The slot of the level `staging` for a timer whose place is slot().
    [[nodiscard]] place staging_of(tick deadline) const noexcept {
        wheel_level level = below();
        level.first = shape::staging;
        return wheel_slots::place_on(level, deadline);
    }

    void set_long_slot(std::size_t timers) noexcept { long_slot_ = timers; }  // for tests

private:
    // The level below that of slot_.
    [[nodiscard]] wheel_level below() const noexcept {
        return shape::level(shape::level_of(slot_) - 1);
    }

    static bool is_next(const wheel_slots& slots, place at, tick now) noexcept;
    void mark_long(unsigned level) noexcept;
    void move_some(wheel_slots& slots, tick now) noexcept;
    void restore(wheel_slots& slots) noexcept;

    std::size_t long_slot_ = 16384;        // more timers in a slot make its level long
    unsigned long_level_ = shape::levels;  // the lowest level on which a slot was long, if any
    place slot_ = 0;                       // of which `staging` holds timers, if any
    std::size_t moved_ = 0;                // timers moved out of slot_ since it was begun
};

}  // namespace verge::detail::queue
