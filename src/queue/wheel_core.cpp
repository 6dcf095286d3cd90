// The parts of the wheel that run seldom, or that walk.  Their ground rules stand in the header.
#include <verge/queue/detail/wheel_core.hpp>

#include <algorithm>

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
        const place at = first_place();
        const tick start = start_of(at);
        if (start > now_) {
            elapsed_ = now_;
            return false;
        }
        const wheel_link* const last = last_[at.index()];
        const bool known = (last->home_ & least_first) != 0;
        const tick least = known ? last->next_->deadline_ : least_of(at);
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
        last->home_ = address();
        link->prev_ = due_.prev_;
        due_.prev_->next_ = link;
        last->next_ = &due_;
        due_.prev_ = last;
        return;
    }
    // In a long list each timer is a cache miss that waits for the one before it.  A second walk,
    // from the back, waits at the same time: what it met is near when the first one gets there.
    const wheel_link* ahead = last;
    for (;;) {
        wheel_link* const next = link->next_;
        if (ahead != link && ahead != next) {  // a branch: a conditional move would tie the walks
            ahead = ahead->prev_;
            __builtin_prefetch(ahead, 1);
        } else {
            ahead = next;
        }
        wheel_timer& timer = as_timer(link);
        if (timer.deadline_ == to) {
            append(due_, timer);
        } else {
            file(timer);
        }
        if (link == last) return;
        link = next;
    }
}

// The end of an advance, however it ended.
void wheel_core::settle(bool caught_up) noexcept {
    running_ = nullptr;
    behind_ = !caught_up;
    if (!behind_ || now_ == elapsed_) return;
    // What was armed meanwhile comes after what is left in the slots.
    while (fresh_.next_ != &fresh_) {
        wheel_timer& timer = as_timer(fresh_.next_);
        fresh_.next_ = timer.next_;
        timer.next_->prev_ = &fresh_;
        file(timer);
    }
}

tick wheel_core::least_of(place at) const noexcept {
    // From both ends: two walks wait for two cache misses at once, see empty_slot().
    const wheel_link* back = last_[at.index()];
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
        const place at = first_place();
        const wheel_link* const last = last_[at.index()];
        const bool known = (last->home_ & least_first) != 0;
        least = std::min(least, known ? last->next_->deadline_ : least_of(at));
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
    for (unsigned level = 0; level < levels; ++level) {
        if (((levels_ >> level) & 1U) != (occupied_[level] != 0 ? 1U : 0U)) return "levels_ bit";
        for (unsigned slot = 0; slot < slots; ++slot) {
            const place at{level, slot};
            const bool occupied = (occupied_[level] & at.bit()) != 0;
            if (at.index() >= slot_count) {
                if (occupied) return "a slot beyond the last";
                continue;
            }
            const wheel_link* const last = last_[at.index()];
            if (occupied != (last != nullptr)) return "occupied_ bit";
            if (last == nullptr) continue;
            const tick first_deadline = last->next_->deadline_;
            tick before = first_deadline;
            const wheel_link* link = last;
            do {
                link = link->next_;
                const wheel_timer& timer = as_timer(link);
                if (link->next_->prev_ != link) return "links of a slot do not match";
                if (!owns(timer)) return "a linked timer belongs to no or another queue";
                if (timer.deadline_ <= elapsed_) return "W1: a filed timer is due";
                if (timer.deadline_ <= now_ && !behind_ && running_ == nullptr) return "W4";
                const place want = place_of(timer.deadline_);
                if (want.level != level || want.slot != slot) return "W1: filed in a wrong slot";
                if ((timer.home_ & is_last) != (link == last ? is_last : 0)) return "W3: is_last";
                if (link != last && (timer.home_ & tags) != 0) return "W3: said of another";
                if ((last->home_ & in_order) != 0 && timer.deadline_ < before) return "W3: order";
                if ((last->home_ & least_first) != 0 && timer.deadline_ < first_deadline) {
                    return "W3: the first is not the least";
                }
                if (level == 0 && timer.deadline_ != first_deadline) return "level 0 mixes ticks";
                before = timer.deadline_;
                ++seen;
            } while (link != last);
            if ((last->home_ & (in_order | least_first)) == in_order) return "W3: implication";
        }
    }
    if (seen != size_) return "size";
    return nullptr;
}

}  // namespace verge::detail
