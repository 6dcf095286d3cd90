// The parts of the wheel that run seldom, or that walk.  Their ground rules stand in the header.
#include <verge/queue/detail/wheel_core.hpp>

#include <algorithm>
#include <utility>

namespace verge::detail {

wheel_core::wheel_core(tick start) noexcept
    : elapsed_(start == never_tick ? start - 1 : start), now_(elapsed_) {}

wheel_core::~wheel_core() {
    clear();
    if (running_ != nullptr) running_->wheel_gone = true;
}

void wheel_core::arm_due(wheel_timer& timer) noexcept {
    timer.deadline_ = now_;
    // While behind_, slots still hold timers that come before this one: it takes its place among
    // them.  (With elapsed_ at now_ there are none: what is left of now_ stands in due_.)
    if (running_ == nullptr && behind_ && now_ > elapsed_) {
        file(timer);
    } else {
        append(fresh_, timer);
    }
}

// Moves the timers of the next due tick to due_.  Returns false if nothing is due by now_.
bool wheel_core::collect_due() noexcept {
    while (levels_ != 0) {
        const bool early = ahead_is_first();
        const place at = early ? ahead_ : first_place();
        const tick start = start_of(at);
        if (start > now_) {
            elapsed_ = now_;
            return false;
        }
        if (early) {
            enter_ahead();
            if (due_.next_ != &due_) return true;
            continue;
        }
        const wheel_link* const last = last_[at.index()];
        const bool known = (last->next_->home_ & least_first) != 0;
        const tick least = known ? last->next_->deadline_ : least_of(last);
        if (least > now_) {
            if (known) {
                elapsed_ = start - 1;  // as far as W1 allows; the slot waits, whole
                return false;
            }
            // Looking for the least cost a walk.  Filing the slot again on lower levels pays for
            // it: no timer is walked more often than there are levels.
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
// go to due_, the others to the slots that are now theirs.
void wheel_core::empty_slot(place at, tick to) noexcept {
    wheel_link* const last = last_[at.index()];
    wheel_link* link = last->next_;
    const bool sorted = (last->home_ & in_order) != 0;
    last_[at.index()] = nullptr;
    mark_empty(at);
    elapsed_ = to;

    if (sorted && last->deadline_ == to) {  // all of them are due now
        link->home_ = last->home_ = address();
        link->prev_ = due_.prev_;
        due_.prev_->next_ = link;
        last->next_ = &due_;
        due_.prev_ = last;
        return;
    }
    if (file_again(last) > long_slot_) long_level_ = std::min(long_level_, at.level);
}

// Moves the timers of a list to where they belong now: due_ or a slot.  Returns how many.
std::size_t wheel_core::file_again(wheel_link* last) noexcept {
    // In a long list each timer is a cache miss that waits for the one before it.  A second walk,
    // from the back, waits at the same time: what it met is near when the first one gets there.
    const wheel_link* back = last;
    wheel_link* link = last->next_;
    for (std::size_t count = 1;; ++count) {
        wheel_link* const next = link->next_;
        if (back != link && back != next) {  // a branch: a conditional move would tie the walks
            back = back->prev_;
            __builtin_prefetch(back, 1);
        } else {
            back = next;
        }
        wheel_timer& timer = as_timer(link);
        if (timer.deadline_ == elapsed_) {
            append(due_, timer);
        } else {
            file(timer);
        }
        if (link == last) return count;
        link = next;
    }
}

// Takes a few timers more out of the next slot that is likely to be long.
void wheel_core::work_ahead() noexcept {
    if (!ahead_in_use()) {
        const std::uint32_t long_ones = levels_ >> long_level_ << long_level_;
        if (long_ones == 0) return;
        const auto level = static_cast<unsigned>(std::countr_zero(long_ones));
        const place at{level, static_cast<unsigned>(std::countr_zero(occupied_[level]))};
        const tick reached = (elapsed_ >> (level * digit_bits)) & (slots - 1);
        if (at.slot != reached + 1) return;  // so early that its timers may still be cancelled
        if (start_of(at) <= now_) return;    // its time has come, but of none of its timers
        ahead_ = at;
        moved_ahead_ = 0;
    }
    const std::size_t some = std::max<std::size_t>(1, long_slot_ / 512);  // 3 us for 32 timers
    for (std::size_t i = 0; i < some; ++i) {
        wheel_link* const last = last_[ahead_.index()];
        if (last == nullptr) return;
        wheel_timer& timer = as_timer(last->next_);
        remove(timer);
        ++size_;
        file(timer, place_ahead_of(timer.deadline_), is_ahead);
        ++moved_ahead_;
    }
}

// Whether the slot that is being taken apart comes before all others, or is the first itself.
bool wheel_core::ahead_is_first() const noexcept {
    return ahead_in_use() && ahead_.index() <= first_place().index();
}

// The time of the slot that was taken apart has come.
void wheel_core::enter_ahead() noexcept {
    wheel_link* const first = std::exchange(last_[place{ahead, 0}.index()], nullptr);
    wheel_link* const rest = std::exchange(last_[ahead_.index()], nullptr);
    if (rest != nullptr) mark_empty(ahead_);
    elapsed_ = start_of(ahead_);
    for (std::uint64_t left = occupied_[ahead] & ~std::uint64_t{1}; left != 0; left &= left - 1) {
        const auto slot = static_cast<unsigned>(std::countr_zero(left));
        wheel_link* const last = std::exchange(last_[place{ahead, slot}.index()], nullptr);
        const place below{ahead_.level - 1, slot};
        last->home_ &= ~is_ahead;
        last_[below.index()] = last;
        mark_used(below);
    }
    occupied_[ahead] = 0;
    levels_ &= ~(1U << ahead);
    if (first != nullptr) file_again(first);  // these go to lower levels still
    if (rest != nullptr) moved_ahead_ += file_again(rest);
    if (moved_ahead_ <= long_slot_ / 2) long_level_ = levels;
}

tick wheel_core::bound_with_ahead() const noexcept {
    if (!ahead_is_first()) return bound_of(first_place());
    const place first{ahead, static_cast<unsigned>(std::countr_zero(occupied_[ahead]))};
    const wheel_link* const link = last_[first.index()]->next_;
    const tick start = start_of(ahead_);
    const tick below = start | (tick{first.slot} << ((ahead_.level - 1) * digit_bits));
    const tick bound = (link->home_ & least_first) != 0 ? link->deadline_ : below;
    return last_[ahead_.index()] == nullptr ? bound : std::min(bound, bound_of(ahead_));
}

// The end of an advance, however it ended.
void wheel_core::settle(bool caught_up) noexcept {
    running_ = nullptr;
    behind_ = !caught_up;
    if (!behind_) work_ahead();
    if (!behind_ || now_ == elapsed_) return;
    // What was armed meanwhile comes after what is left in the slots.
    while (fresh_.next_ != &fresh_) {
        wheel_timer& timer = as_timer(fresh_.next_);
        fresh_.next_ = timer.next_;
        timer.next_->prev_ = &fresh_;
        file(timer);
    }
}

tick wheel_core::least_of(const wheel_link* last) noexcept {
    // From both ends, as in file_again().
    const wheel_link* back = last;
    const wheel_link* front = back->next_;
    tick least = back->deadline_;
    while (front != back) {
        least = std::min({least, front->deadline_, back->deadline_});
        front = front->next_;
        if (front != back) back = back->prev_;
    }
    return std::min(least, front->deadline_);
}

std::optional<tick> wheel_core::next_expiry() const noexcept {
    tick least = never_tick;
    if (due_.next_ != &due_) least = due_.next_->deadline_;
    if (fresh_.next_ != &fresh_) least = std::min(least, fresh_.next_->deadline_);
    if (levels_ != 0) {
        const auto look_into = [this, &least](place at) {
            const wheel_link* const last = last_[at.index()];
            if (last == nullptr) return;
            const bool known = (last->next_->home_ & least_first) != 0;
            least = std::min(least, known ? last->next_->deadline_ : least_of(last));
        };
        if (ahead_is_first()) {
            look_into({ahead, static_cast<unsigned>(std::countr_zero(occupied_[ahead]))});
            look_into(ahead_);
        } else {
            look_into(first_place());
        }
    }
    if (least == never_tick) return std::nullopt;
    return least;
}

void wheel_core::clear() noexcept {
    const auto release = [](wheel_link* link) { link->home_ = 0; };
    for (wheel_link* list : {&due_, &fresh_, &parked_}) {
        for (wheel_link* link = list->next_; link != list; link = link->next_)
            release(link);
        list->next_ = list->prev_ = list;
    }
    while (levels_ != 0) {
        const place at = first_place();
        wheel_link* const last = last_[at.index()];
        for (wheel_link* link = last->next_; link != last; link = link->next_)
            release(link);
        release(last);
        last_[at.index()] = nullptr;
        mark_empty(at);
    }
    size_ = 0;
}

wheel_timer* wheel_core::take_any() noexcept {
    wheel_link* any = nullptr;
    if (levels_ != 0) any = last_[first_place().index()];
    for (wheel_link* list : {&due_, &fresh_, &parked_}) {
        if (list->next_ != list) any = list->next_;
    }
    if (any == nullptr) return nullptr;
    remove(as_timer(any));
    return &as_timer(any);
}

const char* wheel_core::check_slot(place at, std::size_t& seen) const noexcept {
    const wheel_link* const last = last_[at.index()];
    if (((occupied_[at.level] >> at.slot) & 1U) != (last != nullptr ? 1U : 0U)) return "occupied_";
    if (last == nullptr) return nullptr;
    const bool early = at.level == ahead;
    const place filed = early ? ahead_ : at;
    const wheel_link* const first = last->next_;
    tick before = first->deadline_;
    const wheel_link* link = last;
    do {
        link = link->next_;
        const wheel_timer& timer = as_timer(link);
        if (link->next_->prev_ != link) return "links of a slot do not match";
        if (!owns(timer)) return "a linked timer belongs to no or another queue";
        if (timer.deadline_ <= elapsed_) return "W1: a filed timer is due";
        if (timer.deadline_ <= now_ && !behind_ && running_ == nullptr) return "W4";
        const place want = place_of(timer.deadline_);
        if (want.index() != filed.index()) return "W1: filed in a wrong slot";
        if (early && place_ahead_of(timer.deadline_).slot != at.slot) return "W6: its slot";
        if ((timer.home_ & is_last) != (link == last ? is_last : 0)) return "W3: is_last";
        if ((timer.home_ & is_ahead) != (early && link == last ? is_ahead : 0)) return "W6: tag";
        if (link != last && (timer.home_ & in_order) != 0) return "W3: said of another";
        if (link != first && (timer.home_ & least_first) != 0) return "W3: said of another";
        if ((last->home_ & in_order) != 0 && timer.deadline_ < before) return "W3: order";
        if ((first->home_ & least_first) != 0 && timer.deadline_ < first->deadline_) {
            return "W3: the first is not the least";
        }
        if (at.level == 0 && timer.deadline_ != first->deadline_) return "level 0 mixes ticks";
        before = timer.deadline_;
        ++seen;
    } while (link != last);
    if ((last->home_ & in_order) != 0 && (first->home_ & least_first) == 0)
        return "W3: implication";
    return nullptr;
}

// Returns nullptr, or the invariant that does not hold.
const char* wheel_core::check() const noexcept {
    std::size_t seen = 0;
    if (now_ < elapsed_) return "W4: elapsed_ is after now_";
    for (const wheel_link* list : {&due_, &fresh_, &parked_}) {
        for (const wheel_link* link = list->next_; link != list; link = link->next_) {
            if (link->next_->prev_ != link) return "links of a list do not match";
            if (!owns(as_timer(link))) return "a linked timer belongs to no or another queue";
            if ((link->home_ & tags) != 0) return "W3: said of a timer that is in no slot";
            const tick deadline = link->deadline_;
            if ((list == &parked_) != (deadline == never_tick)) return "parked_ is for never only";
            if (list != &parked_ && deadline > now_) return "W5: a due timer is not due";
            ++seen;
        }
    }
    for (unsigned level = 0; level <= ahead; ++level) {
        if (((levels_ >> level) & 1U) != (occupied_[level] != 0 ? 1U : 0U)) return "levels_ bit";
        for (unsigned slot = 0; slot < slots; ++slot) {
            if (const char* const broken = check_slot({level, slot}, seen)) return broken;
        }
    }
    if (seen != size_) return "size";
    return nullptr;
}

}  // namespace verge::detail
