// bench/yield/yield.hpp -- the one script of `yield` that every fiber library plays.
//
// So many fibers do nothing but yield.  ns_per_op is wall time by the yields of all: on two workers
// it can be half of what one yield lasts.  The checksum verifies that each fiber came to its end.

#pragma once

#include "framework/workload.hpp"
#include "support/clock.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace bench {

template <class Fibers>
class yield_ring {
public:
    explicit yield_ring(std::size_t size) : size_(size) {}

    /// In a fiber: starts the others and waits for their end.
    void turn(Fibers& fibers) {
        std::vector<typename Fibers::fiber> ring;
        for (std::size_t i = 0; i < size_; ++i) {
            ring.push_back(fibers.spawn([this] { one(); }));
        }
        for (auto& each : ring) {
            each.join();
        }
    }

    /// On a thread beside it: starts to count when all are there.
    void measure(double seconds) {
        // acquire: as in rpc, all are prepared
        while (present_.load(std::memory_order_acquire) < size_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const stopwatch watch;
        phase_.store(counting, std::memory_order_relaxed);  // relaxed, both: only signs
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        phase_.store(over, std::memory_order_relaxed);
        wall_ns_ = watch.ns();
    }

    /// At the end of the run.
    [[nodiscard]] outcome result() const {
        outcome found;
        found.figures["ns_per_op"] = wall_ns_ / static_cast<double>(yields_);
        found.checksum = ended_;
        return found;
    }

private:
    enum phase_value : int { gathering, counting, over };

    void one() {
        present_.fetch_add(1, std::memory_order_release);  // release: pairs with measure()
        while (phase() == gathering) {
            Fibers::yield();
        }
        std::uint64_t yields = 0;
        while (phase() == counting) {
            Fibers::yield();
            ++yields;
        }
        yields_ += yields;
        ++ended_;
    }

    // relaxed: only a sign
    [[nodiscard]] int phase() const { return phase_.load(std::memory_order_relaxed); }

    std::size_t size_;
    std::atomic<std::size_t> present_{0};  // three: each fiber adds its own
    std::atomic<std::uint64_t> yields_{0}, ended_{0};
    alignas(64) std::atomic<int> phase_{gathering};  // two: written by measure()
    double wall_ns_ = 0;
};

template <class Fibers>
[[nodiscard]] outcome run_yield(const job& asked) {
    yield_ring<Fibers> ring(asked.params.integer("fibers"));
    Fibers::run(
        asked.params.integer("workers"), [&](Fibers& fibers) { ring.turn(fibers); },
        [&] { ring.measure(asked.seconds); });
    return ring.result();
}

}  // namespace bench
