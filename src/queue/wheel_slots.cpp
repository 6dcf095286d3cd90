// src/queue/wheel_slots.cpp -- the walks over a slot's list: filing it again, finding its least.

#include <verge/queue/detail/wheel_slots.hpp>

#include <algorithm>

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

tick wheel_slots::find_least(place at) const noexcept {
    const wheel_link& list = lists_[at];
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

bool wheel_slots::words_are_right() const noexcept {
    for (unsigned word = 0; word < occupied_.size(); ++word) {
        if (((words_ >> word) & 1U) != (occupied_[word] != 0 ? 1U : 0U)) return false;
    }
    return true;
}

}  // namespace verge::detail::queue
