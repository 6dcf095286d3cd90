// src/queue/wheel_precascade.cpp -- pre-cascading: begins, continues, restores and enters a slot.

#include <verge/queue/detail/wheel_precascade.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace verge::detail::queue {

void wheel_precascade::mark_long(unsigned level) noexcept {
    long_level_ = std::min(long_level_, level);
}

void wheel_precascade::move_some(wheel_slots& slots, tick now) noexcept {
    const place at = slots.first_place_from(shape::level(long_level_).first);
    const place limit = slots.staging_in_use() ? slot_ : place{shape::staging};
    if (at < limit && is_next(slots, at, now)) {
        restore(slots);
        slot_ = at;
        moved_ = 0;
    } else if (!slots.staging_in_use()) {
        return;
    }
    const std::size_t some = std::max<std::size_t>(1, long_slot_ / 512);  // 3 us for 32 timers
    for (std::size_t i = 0; i < some && !wheel_slots::is_empty(slots.list(slot_)); ++i) {
        wheel_timer& timer = wheel_slots::first_of(slots.list(slot_));
        slots.unlink(timer);
        slots.file(timer, staging_of(timer.deadline()));
        ++moved_;
    }
}

// Whether a slot is the very next of its level, and its start is still in the future.
bool wheel_precascade::is_next(const wheel_slots& slots, place at, tick now) noexcept {
    const wheel_level level = shape::level(shape::level_of(at));
    return at == wheel_slots::place_on(level, slots.elapsed()) + 1 && slots.start_of(at) > now;
}

// An earlier slot is in use: puts the timers of `staging` back to the front of their own slot.
void wheel_precascade::restore(wheel_slots& slots) noexcept {
    if (!slots.staging_in_use()) return;
    wheel_link whole{&whole, &whole};
    for (place from = shape::staging; from < shape::slots; ++from) {
        wheel_slots::splice(whole, slots.list(from));
        slots.mark_empty(from);
    }
    wheel_slots::splice(whole, slots.list(slot_));
    wheel_slots::splice(slots.list(slot_), whole);
    slots.set_known(slot_, wheel_slots::knowledge::nothing);
    slots.mark_used(slot_);
}

void wheel_precascade::enter(wheel_slots& slots, wheel_link& due) noexcept {
    slots.mark_empty(slot_);
    slots.set_elapsed(slots.start_of(slot_));
    const place to = below().first;
    for (std::uint64_t left = slots.staged() & ~std::uint64_t{1}; left != 0; left &= left - 1) {
        const auto digit = static_cast<unsigned>(std::countr_zero(left));
        wheel_slots::splice(slots.list(to + digit), slots.list(shape::staging + digit));
        slots.set_known(to + digit, slots.known(shape::staging + digit));
        slots.mark_used(to + digit);
        slots.mark_empty(shape::staging + digit);
    }
    slots.mark_empty(shape::staging);
    wheel_link& lower = slots.list(shape::staging);  // digit 0: these go to even lower levels
    if (!wheel_slots::is_empty(lower)) slots.file_again(lower, due);
    wheel_link& rest = slots.list(slot_);
    if (!wheel_slots::is_empty(rest)) moved_ += slots.file_again(rest, due);
    if (moved_ <= long_slot_ / 2) long_level_ = shape::levels;
}

tick wheel_precascade::bound(const wheel_slots& slots) const noexcept {
    const place first = slots.first_place_from(shape::staging);
    const tick start = slots.start_of(slot_) | (tick{first - shape::staging} << below().shift);
    const bool exact = slots.known(first) != wheel_slots::knowledge::nothing;
    const tick staged = exact ? wheel_slots::first_of(slots.list(first)).deadline() : start;
    const bool all_moved = wheel_slots::is_empty(slots.list(slot_));
    return all_moved ? staged : std::min(staged, slots.bound_of(slot_));
}

tick wheel_precascade::least(const wheel_slots& slots) const noexcept {
    const tick staged = slots.least_of(slots.first_place_from(shape::staging));
    const bool all_moved = wheel_slots::is_empty(slots.list(slot_));
    return all_moved ? staged : std::min(staged, slots.least_of(slot_));
}

}  // namespace verge::detail::queue
