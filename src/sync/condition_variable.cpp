// src/sync/condition_variable.cpp -- waits with a mutex, and moves waiters to it.

#include <verge/base/detail/assert.hpp>
#include <verge/sync/condition_variable.hpp>
#include <verge/sync/detail/waiter.hpp>

#include <cstddef>
#include <limits>

namespace verge {

namespace {
constexpr auto everybody = std::numeric_limits<std::size_t>::max();
}

wait_result condition_variable::wait_with(mutex& held, time_point deadline) {
    // relaxed: written under the mutex, which the caller holds, or else differs from it.
    if (mutex_.load(std::memory_order_relaxed) != &held) {
        // relaxed: ordered by the release below.
        mutex_.store(&held, std::memory_order_relaxed);
        // release: after mutex_; pairs with the acquire in notify_all().
        word_.fetch_add(1, std::memory_order_release);
    }
    // Locks again at the end, if it was unlocked: as a contended waiter of the mutex, unless the
    // waiter was certainly not moved there (C3).
    class relock {
    public:
        explicit relock(mutex& held) noexcept : held_(held) {}
        ~relock() {
            if (!unlocked_) return;
            if (moved) {
                held_.lock_contended();
            } else {
                held_.lock();
            }
        }
        relock(const relock&) = delete;
        relock& operator=(const relock&) = delete;
        void unlock() noexcept {
            unlocked_ = true;
            held_.unlock();
        }

        bool moved = true;

    private:
        mutex& held_;
        bool unlocked_ = false;
    };
    relock scope(held);
    const detail::sync::linked_hook unlock{
        [](void* context) noexcept { static_cast<relock*>(context)->unlock(); }, &scope};
    // relaxed: as mutex_.  It changes only if another mutex is used meanwhile, which is forbidden.
    const std::uint32_t expected = word_.load(std::memory_order_relaxed);
    const detail::sync::linked_result ended =
        detail::sync::wait_linked(word_, expected, deadline, unlock);
    scope.moved = ended.moved;
    VERGE_ASSERT(ended.why != wait_result::changed,
                 "verge: a condition_variable used with two mutexes");
    // The mutex is locked again on the way out.
    if (ended.why == wait_result::stopped) detail::sync::current().unwind();
    return ended.why == wait_result::changed ? wait_result::notified : ended.why;
}

void condition_variable::notify_all() noexcept {
    // acquire: before mutex_; pairs with the release in wait_with().
    const std::uint32_t seen = word_.load(std::memory_order_acquire);
    // relaxed: ordered by the acquire above; requeue() detects a later one by word_.
    mutex* const to = mutex_.load(std::memory_order_relaxed);
    if (to != nullptr && requeue(word_, seen, to->word_, 0, everybody) != 0) {
        to->adopt_waiters();
    } else {
        // There are no waiters, or they use a mutex that was set after the read of word_.
        verge::notify_all(word_);
    }
}

}  // namespace verge
