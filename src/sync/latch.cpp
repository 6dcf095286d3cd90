// src/sync/latch.cpp -- the wait of latch and wait_group.

#include <verge/sync/latch.hpp>

namespace verge::detail::sync {

wait_result countdown::wait_for_zero(time_point deadline) const {
    for (;;) {
        // acquire: pairs with the releases in step_down().
        const std::uint32_t seen = word_.load(std::memory_order_acquire);
        if (seen == 0) return wait_result::notified;
        const wait_result why = verge::wait(word_, seen, deadline);
        if (why != wait_result::notified && why != wait_result::changed) return why;
    }
}

}  // namespace verge::detail::sync
