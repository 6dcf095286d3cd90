// verge/io/detail/timer_list.hpp -- timers whose time never comes: in no queue, but to be found.
//
// The end of a context destroys the handlers of all waits, so it must find their timers. Intrusive:
// a Timer has prev_ and next_, which belong to the list while it is inside.

#pragma once

namespace verge::detail::io {

template <class Timer>
class timer_list {
public:
    timer_list() noexcept = default;
    timer_list(const timer_list&) = delete;
    timer_list& operator=(const timer_list&) = delete;
    ~timer_list() = default;

    [[nodiscard]] Timer* front() const noexcept { return first_; }
    void push(Timer& timer) noexcept {
        timer.prev_ = nullptr;
        timer.next_ = first_;
        if (first_ != nullptr) first_->prev_ = &timer;
        first_ = &timer;
    }
    void remove(Timer& timer) noexcept {
        (timer.prev_ != nullptr ? timer.prev_->next_ : first_) = timer.next_;
        if (timer.next_ != nullptr) timer.next_->prev_ = timer.prev_;
    }

private:
    Timer* first_ = nullptr;
};

}  // namespace verge::detail::io
