// src/queue/wheel_slots.cpp -- the walks over a slot's list: filing it again, finding its least.

#include <verge/queue/detail/wheel_slots.hpp>

namespace verge::detail::queue {

std::size_t wheel_slots::file_again(wheel_link& list, wheel_link& due) noexcept {
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
            append(due, timer);
        } else {
            file(timer, place_of(timer.deadline_));
        }
        if (link == last) return count;
        link = next;
    }
}

// Moves the first timer with the least deadline to the front of its list, which makes it
// `least_first`: it passes only timers with later deadlines, so W2 holds.  Arm and cancel pay
// nothing for that, as they would for a least deadline kept beside the list.
tick wheel_slots::find_least(place at) const noexcept {
    wheel_link& list = lists_[at];
    // From both ends, as in file_again().
    wheel_link* front = list.next_;
    wheel_link* back = list.prev_;
    wheel_link* first = front;
    wheel_link* second = back;  // of the half that is walked from the back
    tick first_deadline = as_timer(first).deadline_;
    tick second_deadline = as_timer(second).deadline_;
    while (front != back && front->next_ != back) {
        front = front->next_;
        back = back->prev_;
        if (const tick deadline = as_timer(front).deadline_; deadline < first_deadline) {
            first = front;
            first_deadline = deadline;
        }
        if (const tick deadline = as_timer(back).deadline_; deadline <= second_deadline) {
            second = back;
            second_deadline = deadline;
        }
    }
    if (second_deadline < first_deadline) first = second;
    wheel_timer& least = as_timer(first);
    if (first != list.next_) {
        first->prev_->next_ = first->next_;
        first->next_->prev_ = first->prev_;
        insert(&list, least, list.next_);
    }
    known_[at] = knowledge::least_first;
    return least.deadline_;
}

bool wheel_slots::words_are_right() const noexcept {
    for (unsigned word = 0; word < occupied_.size(); ++word) {
        if (((words_ >> word) & 1U) != (occupied_[word] != 0 ? 1U : 0U)) return false;
    }
    return true;
}

}  // namespace verge::detail::queue
