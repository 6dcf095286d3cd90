// src/sync/event.cpp -- set() and the waits of event and auto_reset_event.

#include <verge/sync/event.hpp>

namespace verge {

void event::set() noexcept {
    // relaxed: the CAS below decides.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
        const bool already = (seen & set_bit) != 0;
        const std::uint32_t next = already ? seen : ((seen & ~waiters) + one_round) | set_bit;
        // release: pairs with the acquires of waits that return, and of reset(); also if it is
        // set.  relaxed on failure: the loop tries again.
        if (word_.compare_exchange_weak(seen, next, std::memory_order_release,
                                        std::memory_order_relaxed)) {
            break;
        }
    }
    if ((seen & waiters) != 0) notify_all(word_);  // by its address only (E3)
}

wait_result event::wait_for_set(time_point deadline) {
    // acquire: pairs with the release in set(), if it is set.
    std::uint32_t seen = word_.load(std::memory_order_acquire);
    const std::uint32_t round = seen / one_round;
    for (;;) {
        if ((seen & set_bit) != 0 || seen / one_round != round) return wait_result::notified;
        if ((seen & waiters) == 0 &&
            // acquire: for the failure, as above.  The mark itself publishes nothing.
            // not mutated: relacy knows no order of a failure above that of a success.
            !word_.compare_exchange_weak(seen, seen | waiters, std::memory_order_acquire,
                                         std::memory_order_acquire)) {
            continue;
        }
        const wait_result why = verge::wait(word_, seen | waiters, deadline);
        if (why != wait_result::notified && why != wait_result::changed) return why;
        seen = word_.load(std::memory_order_acquire);  // acquire: as above
    }
}

wait_result auto_reset_event::wait_for_set(time_point deadline) {
    // relaxed: the CAS below decides.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
        if (seen == is_set) {
            // acquire: pairs with the release in set().  relaxed on failure: tries again.
            if (word_.compare_exchange_weak(seen, waited, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return wait_result::notified;
            }
            continue;
        }
        // relaxed, twice: a mark that publishes nothing.
        if (seen == unset && !word_.compare_exchange_weak(seen, waited, std::memory_order_relaxed,
                                                          std::memory_order_relaxed)) {
            continue;
        }
        const wait_result why = verge::wait(word_, waited, deadline);
        // A waiter that was notified tries again, even past its deadline: otherwise the wake-up
        // would be lost.
        if (why != wait_result::notified && why != wait_result::changed) return why;
        seen = word_.load(std::memory_order_relaxed);  // relaxed: the CAS above decides
    }
}

}  // namespace verge
