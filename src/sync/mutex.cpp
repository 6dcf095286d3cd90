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
        // Who was notified tries again, also past its deadline: the wake-up must not die with it.
        if (wait_uninterrupted(word_, contended, deadline) == wait_result::timed_out) return false;
    }
    return true;
}

// Why none of the moved is forgotten: they were linked to word_ under its bucket's lock, before
// this. unlock() changes word_, and then looks for waiters under that lock.  If it looked before
// they were linked, its `free`, or a later value, is seen here: one is woken, and carries M2 on.
// Else it looks later than that and finds them, if only word_ tells it to look.
void mutex::adopt_waiters() noexcept {
    // relaxed: nothing is read by it; see above for the order that counts.
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
