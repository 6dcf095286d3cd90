// src/queue/wheel_core.cpp -- the wheel's slow paths: cascading, the end of an advance, check().

#include <verge/queue/detail/wheel_core.hpp>

#include <algorithm>

namespace verge {

void wheel_timer::disarm() noexcept {
    home_->remove(*this);
}

namespace detail::queue {

wheel_core::wheel_core(tick start) noexcept
    : now_(start == never_tick ? start - 1 : start), slots_(now_) {}

wheel_core::~wheel_core() {
    clear();
    if (running_ != nullptr) running_->wheel_gone = true;
}

void wheel_core::arm_due(wheel_timer& timer) noexcept {
    timer.deadline_ = now_;
    // While behind_, slots still hold timers that come before this one, so it is filed after them.
    // (If elapsed() == now_ there are none: the remaining timers of now_ are in due_.)
    if (running_ == nullptr && behind_ && now_ > slots_.elapsed()) {
        slots_.file(timer, slots_.place_of(now_));
    } else {
        wheel_slots::append(fresh_, timer);
    }
}

// Moves the timers of the next due tick to due_.  Returns false if nothing is due by now_.
bool wheel_core::collect_due() noexcept {
    if (!slots_.any_in_use()) {
        slots_.set_elapsed(now_);
        return false;
    }
    const bool precascaded = precascade_.is_first(slots_);
    const place at = precascaded ? precascade_.slot() : slots_.first_place();
    const tick start = slots_.start_of(at);
    if (start > now_) {
        slots_.set_elapsed(now_);
        return false;
    }
    if (precascaded) return collect_precascaded();
    if (slots_.known(at) == knowledge::nothing) return collect_unsorted(at);
    const tick least = slots_.least_of(at);
    if (least > now_) {
        slots_.set_elapsed(start - 1);  // as far as W1 allows; the slot is not touched
        return false;
    }
    empty_slot(at, least);
    return true;
}

// The same, if the first slot in use is due and pre-cascaded.  (Functions of their own keep the
// common path of collect_due() free of saved registers.)
bool wheel_core::collect_precascaded() noexcept {
    precascade_.enter(slots_, due_);
    return !wheel_slots::is_empty(due_) || collect_due();
}

// The same, if the start of the first slot in use has come, and its least deadline is not known.
// Finding it takes a walk.  Cascading the slot, also if nothing is due yet, bounds that cost: no
// timer is walked more often than there are levels.
bool wheel_core::collect_unsorted(place at) noexcept {
    const tick least = slots_.least_of(at);
    empty_slot(at, std::min(least, now_));
    return least <= now_ || collect_due();
}

// Moves elapsed() to `to`, a tick inside the slot and not after its least deadline: timers due then
// go to due_, the others are cascaded.
void wheel_core::empty_slot(place at, tick to) noexcept {
    wheel_link& list = slots_.list(at);
    slots_.mark_empty(at);
    slots_.set_elapsed(to);
    if (slots_.known(at) == knowledge::in_order && wheel_slots::last_of(list).deadline_ == to) {
        wheel_slots::splice(due_, list);  // all of them are due now
    } else {
        precascade_.was_emptied(at, slots_.file_again(list, due_));
    }
}

// Ends an advance: completed, out of budget, or by an exception.
void wheel_core::settle(bool caught_up) noexcept {
    running_ = nullptr;
    behind_ = !caught_up;
    if (caught_up) {
        precascade_.work(slots_, now_);
    } else if (now_ != slots_.elapsed()) {
        file_fresh();
    }
}

// Timers armed during an advance that ended early come after those that are left in the slots.
void wheel_core::file_fresh() noexcept {
    while (!wheel_slots::is_empty(fresh_)) {
        wheel_timer& timer = wheel_slots::first_of(fresh_);
        slots_.unlink(timer);
        slots_.file(timer, slots_.place_of(timer.deadline_));
    }
}

std::optional<tick> wheel_core::next_expiry() const noexcept {
    tick least = never_tick;
    if (!wheel_slots::is_empty(due_)) least = wheel_slots::first_of(due_).deadline_;
    if (!wheel_slots::is_empty(fresh_)) {
        least = std::min(least, wheel_slots::first_of(fresh_).deadline_);
    }
    if (slots_.any_in_use()) {
        const tick filed = precascade_.is_first(slots_) ? precascade_.least(slots_)
                                                        : slots_.least_of(slots_.first_place());
        least = std::min(least, filed);
    }
    if (least == never_tick) return std::nullopt;
    return least;
}

void wheel_core::clear() noexcept {
    const auto release_all = [](wheel_link& list) {
        for (wheel_link* link = list.next_; link != &list; link = link->next_)
            wheel_slots::as_timer(link).home_ = nullptr;
        list.next_ = list.prev_ = &list;
    };
    release_all(due_);
    release_all(fresh_);
    release_all(parked_);
    while (slots_.any_in_use()) {
        const place at = slots_.first_place();
        release_all(slots_.list(at));
        slots_.mark_empty(at);
    }
    size_ = 0;
}

wheel_timer* wheel_core::take_any() noexcept {
    wheel_link* list = slots_.any_in_use() ? &slots_.list(slots_.first_place()) : nullptr;
    for (wheel_link* other : {&due_, &fresh_, &parked_}) {
        if (!wheel_slots::is_empty(*other)) list = other;
    }
    if (list == nullptr) return nullptr;
    wheel_timer& any = wheel_slots::first_of(*list);
    remove(any);
    return &any;
}

const char* wheel_core::check_slot(place at, std::size_t& seen) const noexcept {
    const wheel_link& list = slots_.list(at);
    const bool used = slots_.is_marked_used(at);
    if (used == wheel_slots::is_empty(list)) return "occupied_";
    if (!used) return nullptr;
    if (list.next_->prev_ != &list) return "links of a slot do not match";
    const knowledge known = slots_.known(at);
    const bool staged = at >= wheel_shape::staging;
    const tick least = wheel_slots::first_of(list).deadline_;
    tick before = least;
    for (const wheel_link* link = list.next_; link != &list; link = link->next_) {
        const wheel_timer& timer = wheel_slots::as_timer(link);
        if (link->next_->prev_ != link) return "links of a slot do not match";
        if (!owns(timer)) return "a linked timer belongs to no or another queue";
        if (timer.deadline_ <= slots_.elapsed()) return "W1: a filed timer is due";
        if (timer.deadline_ <= now_ && !behind_ && running_ == nullptr) return "W4";
        const place own = slots_.place_of(timer.deadline_);
        if (own != (staged ? precascade_.slot() : at)) return "W1: filed in a wrong slot";
        if (staged && precascade_.staging_of(timer.deadline_) != at) return "W6: its slot";
        if (known == knowledge::in_order && timer.deadline_ < before) return "W3: order";
        if (known != knowledge::nothing && timer.deadline_ < least) {
            return "W3: the first is not the least";
        }
        if (wheel_shape::level_of(at) == 0 && timer.deadline_ != least) {
            return "level 0 mixes ticks";
        }
        before = timer.deadline_;
        ++seen;
    }
    return nullptr;
}

// Returns nullptr, or the invariant that does not hold.
const char* wheel_core::check() const noexcept {
    std::size_t seen = 0;
    if (now_ < slots_.elapsed()) return "W4: elapsed() is after now_";
    for (const wheel_link* list : {&due_, &fresh_, &parked_}) {
        if (list->next_->prev_ != list) return "links of a list do not match";
        for (const wheel_link* link = list->next_; link != list; link = link->next_) {
            if (link->next_->prev_ != link) return "links of a list do not match";
            const wheel_timer& timer = wheel_slots::as_timer(link);
            if (!owns(timer)) return "a linked timer belongs to no or another queue";
            const tick deadline = timer.deadline_;
            if ((list == &parked_) != (deadline == never_tick)) return "parked_ is for never only";
            if (list != &parked_ && deadline > now_) return "W5: a due timer is not due";
            ++seen;
        }
    }
    if (!slots_.words_are_right()) return "words_";
    for (place at = 0; at < wheel_shape::slots; ++at) {
        if (const char* const broken = check_slot(at, seen)) return broken;
    }
    if (seen != size_) return "size";
    return nullptr;
}

}  // namespace detail::queue
}  // namespace verge
