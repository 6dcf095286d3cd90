// src/sync/once.cpp -- which caller of call_once runs the function.

#include <verge/sync/once.hpp>

namespace verge {

once_flag::turn once_flag::begin(time_point deadline) {
    std::uint32_t seen = fresh;
    for (;;) {
        switch (seen) {
            case done:
                return turn::over;
            case fresh:
                // acquire, twice: pairs with the release in end(), of a call that threw or is done.
                if (word_.compare_exchange_weak(seen, running, std::memory_order_acquire,
                                                std::memory_order_acquire)) {
                    return turn::own;
                }
                continue;
            case running:
                // acquire: for the failure, as above.  The mark itself publishes nothing.
                // not mutated: relacy knows no order of a failure above that of a success.
                if (!word_.compare_exchange_weak(seen, waited, std::memory_order_acquire,
                                                 std::memory_order_acquire)) {
                    continue;
                }
                break;
            default:
                break;
        }
        if (wait_uninterrupted(word_, waited, deadline) == wait_result::timed_out) {
            return is_done() ? turn::over : turn::timed_out;
        }
        seen = word_.load(std::memory_order_acquire);  // acquire: as above
    }
}

void once_flag::end(std::uint32_t how) noexcept {
    // release: pairs with the acquires in begin() and is_done().
    if (word_.exchange(how, std::memory_order_release) == waited) notify_all(word_);
}

}  // namespace verge
