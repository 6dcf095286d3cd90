// bench/late/lateness.hpp -- a series of timers, and when each of them fired.

#pragma once

#include "framework/workload.hpp"
#include "support/clock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace bench {

/// The metrics of `late` and `fiber-late`.
[[nodiscard]] std::vector<metric> lateness_metrics();

class lateness {
public:
    /// 1000 timers for each second.
    explicit lateness(double seconds);

    /// Time starts here; the first timer is due a little later.
    void begin() { start_ = now_ns() + 100'000'000; }

    [[nodiscard]] std::size_t size() const { return offsets_.size(); }
    [[nodiscard]] std::int64_t deadline(std::size_t i) const { return start_ + offsets_[i]; }

    /// What timer i does: it writes down the time.
    struct note {
        lateness* series = nullptr;
        std::size_t index = 0;
        void operator()() const {
            series->fired_at_[index] = now_ns();
            ++series->times_[index];
            // release: pairs with the acquire in wait_for_all; the times are seen with it
            series->fired_.fetch_add(1, std::memory_order_release);
        }
    };
    [[nodiscard]] note on_fire(std::size_t i) { return {this, i}; }

    /// Throws if some have not fired long after the last deadline.
    void wait_for_all() const;

    [[nodiscard]] outcome result() const;

private:
    std::int64_t start_ = 0;
    std::vector<std::int64_t> offsets_;
    std::vector<std::int64_t> fired_at_;  // both: element i is written by timer i
    std::vector<std::uint32_t> times_;
    std::atomic<std::size_t> fired_{0};
};

/// Keeps a core busy while it exists, if enabled.
class busy_thread {
public:
    explicit busy_thread(bool busy);
    busy_thread(const busy_thread&) = delete;
    busy_thread& operator=(const busy_thread&) = delete;
    ~busy_thread();

private:
    std::atomic<bool> stop_{false};  // written by the destructor
    std::thread thread_;
};

}  // namespace bench
