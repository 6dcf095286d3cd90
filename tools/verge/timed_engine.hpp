// tools/verge/timed_engine.hpp -- what the engines whose timers stand on a timer thread of their
// own share.

#pragma once

#include "engine.hpp"
#include <verge/driver/timer_thread.hpp>

#include <atomic>
#include <cstdint>
#include <vector>

namespace verge::tool {

class timed_engine : public engine {
public:
    void stop_sending() noexcept final {
        sending_.store(false, std::memory_order_relaxed);  // relaxed: senders_ orders what counts
    }

    [[nodiscard]] bool done() const final {
        // acquire: pairs with the release in sender_ended(), so that every call begun is counted.
        return senders_.load(std::memory_order_acquire) == 0 && tally_.open() == 0 &&
               timers_.stats().pending == 0;
    }

    void add_to(load_figures& sum) const final {
        tally_.add_to(sum);
        const timer_thread::statistics stats = timers_.stats();
        sum.fired += stats.fired;
        sum.cancelled += stats.cancelled;
        sum.pending += stats.pending;
    }

    [[nodiscard]] std::vector<double> worker_busy() final { return tally_.worker_busy(); }

protected:
    /// Room for this many workers, each of which begins calls until it calls sender_ended(), and
    /// for the counts of `others`.
    timed_engine(const live_settings& settings, unsigned workers, unsigned others,
                 std::uint64_t seed)
        : settings_(settings),
          workers_(workers),
          tally_(workers, others, seed),
          timers_({.name = "timers"}),
          senders_(workers) {}
    ~timed_engine() override = default;

    [[nodiscard]] bool sending() const noexcept {
        return sending_.load(std::memory_order_relaxed);  // relaxed: read again
    }
    void sender_ended() noexcept {
        senders_.fetch_sub(1, std::memory_order_release);  // release: pairs with done()
    }

    const live_settings& settings_;
    const unsigned workers_;
    tally tally_;
    timer_thread timers_;

private:
    std::atomic<bool> sending_{true};  // written by stop_sending()
    std::atomic<unsigned> senders_;    // workers that may begin calls; written by them
};

}  // namespace verge::tool
