// bench/burst/burst_clock.hpp -- notes when the last of n timers fires on one thread.

#pragma once

#include "framework/workload.hpp"
#include "support/clock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bench {

class burst_clock {
public:
    burst_clock(std::size_t n, std::int64_t due, bool spread)
        : size_(n), due_(due), last_due_(spread ? due + 1'000'000 : due) {}

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::int64_t due() const { return due_; }

    /// What timer i does.  Only the last reads the clock.
    struct note {
        burst_clock* burst = nullptr;
        std::uint64_t index = 0;
        void operator()() const { burst->fired(index); }
    };
    [[nodiscard]] note on_fire(std::size_t i) { return {this, i}; }

    /// Throws if some have not fired after a minute.
    void wait_for_all() const;

    [[nodiscard]] outcome result() const;

private:
    void fired(std::uint64_t index) {
        sum_ += (index + 1) * (index + 1);
        if (++fired_ != size_) return;
        last_at_ = now_ns();
        // release: pairs with the acquire in wait_for_all; the rest is seen with it
        done_.store(true, std::memory_order_release);
    }

    std::size_t size_;
    std::int64_t due_;
    std::int64_t last_due_;

    // Written by the thread that fires.
    std::size_t fired_ = 0;
    std::uint64_t sum_ = 0;
    std::int64_t last_at_ = 0;
    std::atomic<bool> done_{false};
};

}  // namespace bench
