// src/sync/semaphore.cpp -- release(), and the acquires that wait.

#include <verge/sync/semaphore.hpp>

namespace verge {

void semaphore::release(std::uint32_t n) noexcept {
    if (n == 0) return;  // it would clear `waiters` without waking a waiter
    // relaxed: the CAS below decides.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
        VERGE_ASSERT(n <= max - (seen & ~waiters), "verge: a semaphore with too many permits");
        // release: pairs with the acquire of an acquire().  relaxed on failure: tries again.
        if (word_.compare_exchange_weak(seen, (seen & ~waiters) + n, std::memory_order_release,
                                        std::memory_order_relaxed)) {
            break;
        }
    }
    if ((seen & waiters) != 0) notify_n(word_, n);  // by its address only
}

wait_result semaphore::acquire_waiting(time_point deadline) {
    // relaxed: the CAS below decides.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
        if ((seen & ~waiters) != 0) {
            // acquire: pairs with the release in release().  relaxed on failure: tries again.
            if (!word_.compare_exchange_weak(seen, (seen - 1) | waiters, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
                continue;
            }
            if (((seen - 1) & ~waiters) != 0) notify_one(word_);  // SE3
            return wait_result::notified;
        }
        // relaxed, twice: a mark that publishes nothing.
        if (seen == 0 && !word_.compare_exchange_weak(seen, waiters, std::memory_order_relaxed,
                                                      std::memory_order_relaxed)) {
            continue;
        }
        const wait_result why = wait(word_, waiters, deadline);
        // A waiter that was notified tries again, even past its deadline: otherwise the wake-up
        // would be lost.
        if (why != wait_result::notified && why != wait_result::changed) return why;
        seen = word_.load(std::memory_order_relaxed);  // relaxed: the CAS above decides
    }
}

}  // namespace verge
