// src/base/manual_clock.cpp -- the list of waiters of a manual_clock, and how they are woken.

#include <verge/base/detail/assert.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/base/manual_clock.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

namespace verge {

namespace {

// A thread inside park(), on its stack.  Linked while it waits and is not due.
struct waiter {
    parker* owner;
    time_point deadline;
    waiter* next = nullptr;
};

}  // namespace

// Why no wake-up is lost.  The owner calls enter() of its parker, *then* links itself under the
// mutex; advance() changes the time and expires the due waiters under the same mutex.  Either the
// owner locks second and sees the new time, or advance() locks second, sees the owner linked and
// parked, and expires it.  An unpark() needs no lock: the parker handles that race (parker.hpp).
struct manual_clock::state {
    explicit state(time_point start) : now(std::min(start, last_time)) {}

    // Calls f(link) for each linked waiter, where `*link` is the pointer to it.  If f changes
    // *link, the walk continues with the new value.
    template <class F>
    void each(F f) {
        for (waiter** link = &first; *link != nullptr;) {
            waiter* const before = *link;
            f(link);
            if (*link == before) link = &(*link)->next;
        }
    }

    void unlink(waiter** link) {
        *link = (*link)->next;
        --linked;
    }

    // Moves the time to `when`, if that is later.  Precondition: the mutex is held.
    void move_to(time_point when) {
        when = std::min(when, last_time);
        // relaxed: only holders of the mutex write it.
        if (when <= now.load(std::memory_order_relaxed)) return;
        // relaxed: the mutex orders sleepers, and reading the time orders nothing.
        now.store(when, std::memory_order_relaxed);
        each([&](waiter** link) {
            waiter& due = **link;
            if (due.deadline > when) return;
            unlink(link);
            due.owner->expire();  // `due` lives in park() until that has locked the mutex again
        });
    }

    detail::thread_mutex mutex;
    detail::thread_condition changed;  // notified when `linked` grows or `inside` shrinks

    // Written with the mutex held.  `now` is read without it.
    std::atomic<time_point> now;
    static_assert(std::atomic<time_point>::is_always_lock_free);
    waiter* first = nullptr;
    std::size_t linked = 0;  // the length of that list
    std::size_t inside = 0;  // threads in park() that will lock the mutex again
};

manual_clock::manual_clock(time_point start) : state_(std::make_unique<state>(start)) {}

manual_clock::~manual_clock() {
    std::unique_lock lock(state_->mutex);
    state_->each([](waiter** link) {
        VERGE_ASSERT(!(*link)->owner->is_parked(), "a manual_clock is destroyed under a sleeper");
        static_cast<void>(link);
    });
    state_->changed.wait(lock, [&] { return state_->inside == 0; });
}

time_point manual_clock::now() const noexcept {
    // relaxed: reading the time orders nothing.
    return state_->now.load(std::memory_order_relaxed);
}

void manual_clock::advance(duration by) noexcept {
    const std::lock_guard lock(state_->mutex);
    state_->move_to(deadline_after(now(), by));
}

void manual_clock::advance_to(time_point when) noexcept {
    const std::lock_guard lock(state_->mutex);
    state_->move_to(when);
}

void manual_clock::sleep_until(time_point when) noexcept {
    parker owner;
    static_cast<void>(park(owner, when));  // false: no other thread can unpark it
}

bool manual_clock::park(parker& owner, time_point deadline) noexcept {
    if (!owner.enter()) return true;
    waiter self{&owner, deadline};
    {
        const std::lock_guard lock(state_->mutex);
        if (now() >= deadline) return owner.leave();
        self.next = state_->first;
        state_->first = &self;
        ++state_->linked;
        ++state_->inside;
        state_->changed.notify_all();
    }
    owner.sleep();
    {
        const std::lock_guard lock(state_->mutex);
        state_->each([&](waiter** link) {
            if (*link == &self) state_->unlink(link);  // an unpark() came before the deadline
        });
        --state_->inside;
        state_->changed.notify_all();  // under the mutex: the destructor may be waiting for this
    }
    return owner.leave();
}

std::size_t manual_clock::waiters() const noexcept {
    const std::lock_guard lock(state_->mutex);
    return state_->linked;
}

void manual_clock::wait_for_waiters(std::size_t count) const noexcept {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->linked >= count; });
}

}  // namespace verge
