// bench/burst/burst_clock.cpp -- notes when the last of n timers fires on one thread.

#include "burst/burst_clock.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace bench {

void burst_clock::wait_for_all() const {
    const std::int64_t give_up = last_due_ + 60'000'000'000;
    // acquire: pairs with the release in fired
    while (!done_.load(std::memory_order_acquire)) {
        if (now_ns() > give_up) throw std::runtime_error("not all timers of the burst fired");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

outcome burst_clock::result() const {
    const auto drain = static_cast<double>(last_at_ - due_);
    outcome found;
    found.figures = {{"drain_ms", drain / 1e6},
                     {"ns_per_timer", drain / static_cast<double>(size_)},
                     {"last_late_ms", static_cast<double>(last_at_ - last_due_) / 1e6}};
    found.checksum = sum_;
    return found;
}

}  // namespace bench
