// src/sync/mutex.cpp -- the slow paths of a mutex: contended locks, and waiters that a condition
// variable moved.

#include <verge/sync/detail/waiter.hpp>
#include <verge/sync/mutex.hpp>

namespace verge {

void mutex::lock_contended() noexcept {
    const detail::sync::wait_scope showing(detail::sync::current(), wait_kind::mutex);
    // acquire: pairs with the release in unlock().
    while (word_.exchange(contended, std::memory_order_acquire) != free)
        wait_uninterrupted(word_, contended);
}

bool mutex::lock_contended_until(time_point deadline) {
    const detail::sync::wait_scope showing(detail::sync::current(), wait_kind::mutex);
    // acquire: pairs with the release in unlock().
    while (word_.exchange(contended, std::memory_order_acquire) != free) {
        // A waiter that was notified tries again, even past its deadline: otherwise the wake-up
        // would be lost.
        if (wait_uninterrupted(word_, contended, deadline) == wait_result::timed_out) return false;
    }
    return true;
}

// Why no moved waiter is lost: they were linked to word_ under its bucket's lock, before this call.
// unlock() changes word_, and then searches for waiters under that lock.  If it searched before
// they were linked, its `free`, or a later value, is read here: one waiter is woken, and maintains
// M2. Otherwise it searches after they were linked and finds them, provided that word_ was
// `contended`, which this function ensures.
void mutex::adopt_waiters() noexcept {
    // relaxed: no other data depends on it; the bucket's lock gives the order used above.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    while (seen == held) {
        // relaxed, twice: a mark that publishes nothing.
        if (word_.compare_exchange_weak(seen, contended, std::memory_order_relaxed,
                                        std::memory_order_relaxed)) {
            return;
        }
    }
    if (seen == free) notify_one(word_);
}

}  // namespace verge
