// src/queue/wheel_core.cpp -- the wheel's slow paths: cascading, pre-cascading, walks and check().

#include <verge/queue/detail/wheel_core.hpp>

#include <algorithm>

namespace verge::detail::queue {

wheel_core::wheel_core(tick start) noexcept
    : elapsed_(start == never_tick ? start - 1 : start), now_(elapsed_) {
    for (wheel_link& list : slots_)
        list.next_ = list.prev_ = &list;
}

wheel_core::~wheel_core() {
    clear();
    if (running_ != nullptr) running_->wheel_gone = true;
}

void wheel_core::arm_due(wheel_timer& timer) noexcept {
    timer.deadline_ = now_;
    // While behind_, slots still hold timers that come before this one, so it is filed after them.
    // (If elapsed_ == now_ there are none: the remaining timers of now_ are in due_.)
    if (running_ == nullptr && behind_ && now_ > elapsed_) {
        file(timer, place_of(now_));
    } else {
        append(fresh_, timer);
    }
}

// Moves the timers of the next due tick to due_.  Returns false if nothing is due by now_.
bool wheel_core::collect_due() noexcept {
    while (words_ != 0) {
        const bool early = ahead_is_first();
        const place at = early ? ahead_ : first_place();
        const tick start = start_of(at);
        if (start > now_) {
            elapsed_ = now_;
            return false;
        }
        if (early) {
            enter_ahead();
            if (!is_empty(due_)) return true;
            continue;
        }
        const tick least = least_of(at);
        if (least > now_) {
            if (known_[at] != knowledge::nothing) {
                elapsed_ = start - 1;  // as far as W1 allows; the slot is not touched
                return false;
            }
            // Finding the least took a walk.  Cascading the slot now bounds that cost: no timer is
            // walked more often than there are levels.
            empty_slot(at, now_);
            continue;
        }
        empty_slot(at, least);
        return true;
    }
    elapsed_ = now_;
    return false;
}

// Moves elapsed_ to `to`, a tick inside the slot and not after its least deadline: timers due then
// go to due_, the others are cascaded.
void wheel_core::empty_slot(place at, tick to) noexcept {
    wheel_link& list = slots_[at];
    mark_empty(at);
    elapsed_ = to;
    if (known_[at] == knowledge::in_order && last_of(list).deadline_ == to) {
        splice(due_, list);  // all of them are due now
    } else if (file_again(list) > long_slot_) {
        long_level_ = std::min(long_level_, shape::level_of(at));
    }
}

// Moves the timers of a list to their present places: due_ or a slot.  Returns how many.
// Precondition: the list is not empty.
std::size_t wheel_core::file_again(wheel_link& list) noexcept {
    wheel_link* link = list.next_;
    wheel_link* const last = list.prev_;
    list.next_ = list.prev_ = &list;
    // In a long list each timer is a cache miss that depends on the previous one.  A second walk,
    // from the back, overlaps its misses with these: its timers are in the cache when the first
    // walk reaches them.
    const wheel_link* back = last;
    for (std::size_t count = 1;; ++count) {
        wheel_link* const next = link->next_;
        if (back != link && back != next) {  // a branch: a cmov would make the walks dependent
            back = back->prev_;
            __builtin_prefetch(back, 1);
        } else {
            back = next;
        }
        wheel_timer& timer = as_timer(link);
        if (timer.deadline_ == elapsed_) {
            append(due_, timer);
        } else {
            file(timer, place_of(timer.deadline_));
        }
        if (link == last) return count;
        link = next;
    }
}

// Pre-cascades a few more timers of the next slot that is likely to be long.
void wheel_core::work_ahead() noexcept {
    if (long_level_ == shape::levels) return;
    const place at = first_place_from(shape::level(long_level_).first);
    if (at < (ahead_in_use() ? ahead_ : shape::ahead) && is_next(at)) {
        give_back_ahead();
        ahead_ = at;
        moved_ahead_ = 0;
    } else if (!ahead_in_use()) {
        return;
    }
    const std::size_t some = std::max<std::size_t>(1, long_slot_ / 512);  // 3 us for 32 timers
    for (std::size_t i = 0; i < some && !is_empty(slots_[ahead_]); ++i) {
        wheel_timer& timer = first_of(slots_[ahead_]);
        unlink(timer);
        file(timer, place_ahead_of(timer.deadline_));
        ++moved_ahead_;
    }
}

// Whether a slot is the very next of its level, and its start is still in the future.  The timers
// of a slot farther away may still be cancelled; a slot that has started may have no due timer, and
// stays whole until its first one is due.
bool wheel_core::is_next(place at) const noexcept {
    const wheel_level level = shape::level(shape::level_of(at));
    return at == place_on(level, elapsed_) + 1 && start_of(at) > now_;
}

// Another slot comes before the one that was being pre-cascaded: undoes that.
void wheel_core::give_back_ahead() noexcept {
    if (!ahead_in_use()) return;
    wheel_link whole{&whole, &whole};
    for (place from = shape::ahead; from < shape::slots; ++from) {
        splice(whole, slots_[from]);
        mark_empty(from);
    }
    splice(whole, slots_[ahead_]);
    splice(slots_[ahead_], whole);
    known_[ahead_] = knowledge::nothing;
    mark_used(ahead_);
}

// The first slot in use at or after this one, or shape::slots.
wheel_core::place wheel_core::first_place_from(place at) const noexcept {
    std::uint64_t bits = occupied_[at / 64] >> (at % 64) << (at % 64);
    for (place word = at / 64;;) {
        if (bits != 0) return word * 64 + static_cast<unsigned>(std::countr_zero(bits));
        if (++word == occupied_.size()) return shape::slots;
        bits = occupied_[word];
    }
}

// Whether the slot that is being pre-cascaded is the first in use.
bool wheel_core::ahead_is_first() const noexcept {
    return ahead_in_use() && ahead_ <= first_place();
}

// The start of the pre-cascaded slot is due: splices its lists into the level below.
void wheel_core::enter_ahead() noexcept {
    mark_empty(ahead_);
    elapsed_ = start_of(ahead_);
    wheel_link& first = slots_[shape::ahead];
    const place below = below_ahead().first;
    for (std::uint64_t left = occupied_[shape::ahead / 64] & ~std::uint64_t{1}; left != 0;
         left &= left - 1) {
        const auto digit = static_cast<unsigned>(std::countr_zero(left));
        splice(slots_[below + digit], slots_[shape::ahead + digit]);
        known_[below + digit] = known_[shape::ahead + digit];
        mark_used(below + digit);
        mark_empty(shape::ahead + digit);
    }
    mark_empty(shape::ahead);
    if (!is_empty(first)) file_again(first);  // digit 0: these go to even lower levels
    if (!is_empty(slots_[ahead_])) moved_ahead_ += file_again(slots_[ahead_]);
    if (moved_ahead_ <= long_slot_ / 2) long_level_ = shape::levels;
}

tick wheel_core::bound_with_ahead() const noexcept {
    if (!ahead_is_first()) return bound_of(first_place());
    const place first = first_place_from(shape::ahead);
    const tick below = start_of(ahead_) | (tick{first - shape::ahead} << below_ahead().shift);
    const tick bound =
        known_[first] != knowledge::nothing ? first_of(slots_[first]).deadline_ : below;
    return is_empty(slots_[ahead_]) ? bound : std::min(bound, bound_of(ahead_));
}

// Ends an advance: completed, out of budget, or by an exception.
void wheel_core::settle(bool caught_up) noexcept {
    running_ = nullptr;
    behind_ = !caught_up;
    if (!behind_) work_ahead();
    if (!behind_ || now_ == elapsed_) return;
    // Timers armed meanwhile come after those that are left in the slots.
    while (!is_empty(fresh_)) {
        wheel_timer& timer = first_of(fresh_);
        unlink(timer);
        file(timer, place_of(timer.deadline_));
    }
}

// The least deadline in a slot.  Precondition: it is in use.
tick wheel_core::least_of(place at) const noexcept {
    const wheel_link& list = slots_[at];
    if (known_[at] != knowledge::nothing) return first_of(list).deadline_;
    // From both ends, as in file_again().
    const wheel_link* front = list.next_;
    const wheel_link* back = list.prev_;
    tick least = never_tick;
    for (;;) {
        least = std::min({least, as_timer(front).deadline_, as_timer(back).deadline_});
        if (front == back || front->next_ == back) return least;
        front = front->next_;
        back = back->prev_;
    }
}

std::optional<tick> wheel_core::next_expiry() const noexcept {
    tick least = never_tick;
    if (!is_empty(due_)) least = first_of(due_).deadline_;
    if (!is_empty(fresh_)) least = std::min(least, first_of(fresh_).deadline_);
    if (words_ != 0) {
        if (ahead_is_first()) {
            least = std::min(least, least_of(first_place_from(shape::ahead)));
            if (!is_empty(slots_[ahead_])) least = std::min(least, least_of(ahead_));
        } else {
            least = std::min(least, least_of(first_place()));
        }
    }
    if (least == never_tick) return std::nullopt;
    return least;
}

void wheel_core::clear() noexcept {
    const auto release_all = [](wheel_link& list) {
        for (wheel_link* link = list.next_; link != &list; link = link->next_)
            as_timer(link).home_ = nullptr;
        list.next_ = list.prev_ = &list;
    };
    release_all(due_);
    release_all(fresh_);
    release_all(parked_);
    while (words_ != 0) {
        const place at = first_place();
        release_all(slots_[at]);
        mark_empty(at);
    }
    size_ = 0;
}

wheel_timer* wheel_core::take_any() noexcept {
    wheel_link* list = words_ != 0 ? &slots_[first_place()] : nullptr;
    for (wheel_link* other : {&due_, &fresh_, &parked_}) {
        if (!is_empty(*other)) list = other;
    }
    if (list == nullptr) return nullptr;
    wheel_timer& any = first_of(*list);
    remove(any);
    return &any;
}

const char* wheel_core::check_slot(place at, std::size_t& seen) const noexcept {
    const wheel_link& list = slots_[at];
    const bool used = ((occupied_[at / 64] >> (at % 64)) & 1U) != 0;
    if (used == is_empty(list)) return "occupied_";
    if (!used) return nullptr;
    if (list.next_->prev_ != &list) return "links of a slot do not match";
    const bool early = at >= shape::ahead;
    const tick least = first_of(list).deadline_;
    tick before = least;
    for (const wheel_link* link = list.next_; link != &list; link = link->next_) {
        const wheel_timer& timer = as_timer(link);
        if (link->next_->prev_ != link) return "links of a slot do not match";
        if (!owns(timer)) return "a linked timer belongs to no or another queue";
        if (timer.deadline_ <= elapsed_) return "W1: a filed timer is due";
        if (timer.deadline_ <= now_ && !behind_ && running_ == nullptr) return "W4";
        if (place_of(timer.deadline_) != (early ? ahead_ : at)) return "W1: filed in a wrong slot";
        if (early && place_ahead_of(timer.deadline_) != at) return "W6: its slot";
        if (known_[at] == knowledge::in_order && timer.deadline_ < before) return "W3: order";
        if (known_[at] != knowledge::nothing && timer.deadline_ < least) {
            return "W3: the first is not the least";
        }
        if (shape::level_of(at) == 0 && timer.deadline_ != least) return "level 0 mixes ticks";
        before = timer.deadline_;
        ++seen;
    }
    return nullptr;
}

// Returns nullptr, or the invariant that does not hold.
const char* wheel_core::check() const noexcept {
    std::size_t seen = 0;
    if (now_ < elapsed_) return "W4: elapsed_ is after now_";
    for (const wheel_link* list : {&due_, &fresh_, &parked_}) {
        if (list->next_->prev_ != list) return "links of a list do not match";
        for (const wheel_link* link = list->next_; link != list; link = link->next_) {
            if (link->next_->prev_ != link) return "links of a list do not match";
            if (!owns(as_timer(link))) return "a linked timer belongs to no or another queue";
            const tick deadline = as_timer(link).deadline_;
            if ((list == &parked_) != (deadline == never_tick)) return "parked_ is for never only";
            if (list != &parked_ && deadline > now_) return "W5: a due timer is not due";
            ++seen;
        }
    }
    for (unsigned word = 0; word < occupied_.size(); ++word) {
        if (((words_ >> word) & 1U) != (occupied_[word] != 0 ? 1U : 0U)) return "words_";
    }
    for (place at = 0; at < shape::slots; ++at) {
        if (const char* const broken = check_slot(at, seen)) return broken;
    }
    if (seen != size_) return "size";
    return nullptr;
}

}  // namespace verge::detail::queue
