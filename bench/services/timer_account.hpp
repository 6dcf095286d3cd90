// bench/services/timer_account.hpp -- where all timers went: each scheduled one must have one end.

#pragma once

#include <atomic>
#include <cstdint>

namespace bench {

class timer_account {
public:
    /// Called by a timer that fires.
    struct count_fired {
        timer_account* account = nullptr;
        // relaxed: a counter that nothing is read through
        void operator()() const { account->fired_.fetch_add(1, std::memory_order_relaxed); }
    };

    [[nodiscard]] count_fired on_fire() { return {this}; }

    /// A thread hands in what it counted.
    void add(std::uint64_t scheduled, std::uint64_t cancelled) {
        // relaxed: read after the threads have been joined
        scheduled_.fetch_add(scheduled, std::memory_order_relaxed);
        cancelled_.fetch_add(cancelled, std::memory_order_relaxed);
    }

    /// Timers without an end: 0 if all is well.  Waits a while for callbacks under way.
    [[nodiscard]] std::uint64_t lost() const;

private:
    std::atomic<std::uint64_t> scheduled_{0};  // all three: written by any thread
    std::atomic<std::uint64_t> cancelled_{0};
    std::atomic<std::uint64_t> fired_{0};
};

}  // namespace bench
