// bench/sleepers/sleep_record.hpp -- deadlines of n sleeping fibers, and when each woke up.

#pragma once

#include "framework/workload.hpp"
#include "support/clock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

class sleep_record {
public:
    /// Deadlines are uniform in the `seconds` after `start`.  All memory is touched here.
    sleep_record(std::size_t n, std::int64_t start, double seconds);

    [[nodiscard]] std::size_t size() const { return deadlines_.size(); }
    [[nodiscard]] std::int64_t deadline(std::size_t i) const { return deadlines_[i]; }

    /// In fiber i, before and after its sleep.
    void goes_to_sleep() {
        // release: pairs with the acquire in observe
        asleep_.fetch_add(1, std::memory_order_release);
    }
    void woke_up(std::size_t i) {
        woken_at_[i] = now_ns();
        ++times_[i];
        // release: pairs with the acquire in observe; the times are seen with it
        woken_.fetch_add(1, std::memory_order_release);
    }

    /// On a thread beside the fibers: measures memory when all are asleep, then waits for them.
    /// If the first was due before the last had gone to sleep, the try does not count.
    void observe();
    [[nodiscard]] bool counts() const { return counts_; }

    [[nodiscard]] outcome result() const;

private:
    std::int64_t start_;
    std::int64_t last_ = 0;
    std::vector<std::int64_t> deadlines_;
    std::vector<std::int64_t> woken_at_;  // both: element i is written by fiber i
    std::vector<std::uint8_t> times_;
    std::atomic<std::size_t> asleep_{0}, woken_{0};  // each fiber adds 1
    std::int64_t resident_before_;
    std::int64_t resident_asleep_ = 0;  // both: written by observe
    bool counts_ = false;
};

}  // namespace bench
