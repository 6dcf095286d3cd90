// bench/late/lateness.cpp -- a series of timers, and when each of them fired.

#include "late/lateness.hpp"

#include "support/percentile.hpp"
#include "support/random.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace bench {

std::vector<metric> lateness_metrics() {
    return {{"p50_us", "us"},
            {"p99_us", "us"},
            {"p999_us", "us"},
            {"max_us", "us"},
            {"early", "count"}};
}

lateness::lateness(double seconds) {
    constexpr std::int64_t ms = 1'000'000;
    const auto count = std::max<std::int64_t>(1, static_cast<std::int64_t>(1000 * seconds));
    random_sequence random;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto within = static_cast<std::int64_t>(scale_to(low_half(random()), ms));
        offsets_.push_back(i * ms + within);
    }
    fired_at_.resize(offsets_.size());
    times_.resize(offsets_.size());
}

void lateness::wait_for_all() const {
    // Counts its own checks, not the clock: a process that was stopped for a while continues.
    int looks_after_the_last = 0;
    // acquire: pairs with the release in note
    while (fired_.load(std::memory_order_acquire) < size()) {
        if (now_ns() > deadline(size() - 1) && ++looks_after_the_last > 1000) {
            throw std::runtime_error("only " + std::to_string(fired_) + " of " +
                                     std::to_string(size()) + " timers fired");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

outcome lateness::result() const {
    std::vector<double> late;
    double early = 0;
    for (std::size_t i = 0; i < size(); ++i) {
        const std::int64_t by = fired_at_[i] - deadline(i);
        if (by < 0) ++early;
        late.push_back(static_cast<double>(by) / 1000);
    }
    std::sort(late.begin(), late.end());
    outcome found;
    found.figures = {{"p50_us", percentile(late, 0.5)},
                     {"p99_us", percentile(late, 0.99)},
                     {"p999_us", percentile(late, 0.999)},
                     {"max_us", late.back()},
                     {"early", early}};
    running_hash fired;
    for (const std::uint32_t times : times_) {
        fired.add(times);
    }
    found.checksum = fired.value();
    return found;
}

busy_thread::busy_thread(bool busy) {
    if (!busy) return;
    thread_ = std::thread([this] {
        // relaxed: only a sign to end
        while (!stop_.load(std::memory_order_relaxed)) {
        }
    });
}

busy_thread::~busy_thread() {
    // relaxed: only a sign to end
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
}

}  // namespace bench
