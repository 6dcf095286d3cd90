// bench/sleepers/sleep_record.cpp -- deadlines of n sleeping fibers, and when each woke up.

#include "sleepers/sleep_record.hpp"

#include "support/percentile.hpp"
#include "support/process.hpp"
#include "support/random.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace bench {

sleep_record::sleep_record(std::size_t n, std::int64_t start, double seconds)
    : start_(start), deadlines_(n), woken_at_(n), times_(n), resident_before_(0) {
    random_sequence random;
    const auto range = static_cast<std::uint64_t>(seconds * 1e6);
    for (std::int64_t& each : deadlines_) {
        each = start + static_cast<std::int64_t>(scale_to(low_half(random()), range)) * 1000;
        last_ = std::max(last_, each);
    }
    resident_before_ = resident_bytes();
}

void sleep_record::observe() {
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    // acquire: pairs with the release in goes_to_sleep
    while (asleep_.load(std::memory_order_acquire) < size() && now_ns() < start_) {
        pause();
    }
    pause();  // the last has said that it goes; it is there by now
    resident_asleep_ = resident_bytes();
    counts_ = asleep_.load(std::memory_order_acquire) == size() && now_ns() < start_;

    // Counts its own checks, not the clock: a process that was stopped for a while continues.
    constexpr int most_looks = 6000;
    int looks_after_the_last = 0;
    // acquire: pairs with the release in woke_up
    while (woken_.load(std::memory_order_acquire) < size() && looks_after_the_last < most_looks) {
        if (now_ns() > last_) ++looks_after_the_last;
        pause();
    }
}

outcome sleep_record::result() const {
    std::vector<double> late;
    running_hash woken;
    for (std::size_t i = 0; i < size(); ++i) {
        woken.add(times_[i]);
        if (times_[i] == 0) continue;
        const std::int64_t by = woken_at_[i] - deadlines_[i];
        if (by < 0) throw std::runtime_error("a fiber woke up early");
        late.push_back(static_cast<double>(by) / 1e6);
    }
    std::sort(late.begin(), late.end());
    outcome found;
    found.figures = {{"bytes_per_fiber", static_cast<double>(resident_asleep_ - resident_before_) /
                                             static_cast<double>(size())},
                     {"late_p50_ms", percentile(late, 0.5)},
                     {"late_p99_ms", percentile(late, 0.99)},
                     {"lost", static_cast<double>(size() - late.size())}};
    found.checksum = woken.value();
    return found;
}

}  // namespace bench
