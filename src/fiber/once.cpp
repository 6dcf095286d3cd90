#include <verge/fiber/once.hpp>

namespace verge::fibers {

bool once_flag::begin() noexcept {
    std::uint32_t seen = fresh;
    for (;;) {
        switch (seen) {
            case done:
                return false;
            case fresh:
                // acquire, twice: pairs with the release in end(), of a call that threw or is done.
                if (word_.compare_exchange_weak(seen, running, std::memory_order_acquire,
                                                std::memory_order_acquire)) {
                    return true;
                }
                continue;
            case running:
                // acquire: for the failure, as above.  The mark itself publishes nothing.
                if (!word_.compare_exchange_weak(seen, waited, std::memory_order_acquire,
                                                 std::memory_order_acquire)) {
                    continue;
                }
                break;
            default:
                break;
        }
        wait_uninterrupted(word_, waited);
        seen = word_.load(std::memory_order_acquire);  // acquire: as above
    }
}

void once_flag::end(std::uint32_t how) noexcept {
    // release: pairs with the acquires in begin() and is_done().
    if (word_.exchange(how, std::memory_order_release) == waited) notify_all(word_);
}

}  // namespace verge::fibers
