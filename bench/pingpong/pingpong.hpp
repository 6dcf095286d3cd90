// bench/pingpong/pingpong.hpp -- the one script of `pingpong` that every fiber library plays.
//
// Two fibers share a ball, a mutex and a condition variable.  One operation is one pass, in one
// direction: lock, wait until the ball is here, send it off, unlock, notify.  The checksum verifies
// that both passed it equally often.

#pragma once

#include "framework/workload.hpp"
#include "support/clock.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace bench {

template <class Mutex, class ConditionVariable>
class ball {
public:
    /// The side's player, until the umpire ends it; player 0 then takes the ball out of the game.
    void play(int side) {
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                static_cast<void>(moved_.wait(lock, [&] { return at_ == side || at_ == nowhere; }));
                if (at_ == nowhere) return;
                // relaxed: only a sign
                const bool last = side == 0 && time_is_up_.load(std::memory_order_relaxed);
                at_ = last ? nowhere : 1 - side;
                if (!last) ++passes_[side];
            }
            moved_.notify_one();
        }
    }

    /// On a thread beside it.
    void umpire(double seconds) {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        time_is_up_.store(true, std::memory_order_relaxed);  // relaxed: only a sign
    }

    [[nodiscard]] double passes() const { return static_cast<double>(passes_[0] + passes_[1]); }
    [[nodiscard]] std::uint64_t unequal() const { return passes_[0] - passes_[1]; }

private:
    static constexpr int nowhere = -1;

    Mutex mutex_;
    ConditionVariable moved_;
    int at_ = 0;  // both: under mutex_
    std::uint64_t passes_[2] = {0, 0};
    std::atomic<bool> time_is_up_{false};  // written by the umpire
};

template <class Fibers, class Mutex, class ConditionVariable>
[[nodiscard]] outcome run_pingpong(const job& asked) {
    ball<Mutex, ConditionVariable> game;
    double wall_ns = 0;
    const auto inside = [&](Fibers& fibers) {
        const stopwatch watch;
        auto other = fibers.spawn([&] { game.play(1); });
        game.play(0);
        other.join();
        wall_ns = watch.ns();
    };
    Fibers::run(asked.params.integer("workers"), inside, [&] { game.umpire(asked.seconds); });
    outcome found;
    found.figures["ns_per_op"] = wall_ns / game.passes();
    found.checksum = game.unequal();
    return found;
}

}  // namespace bench
