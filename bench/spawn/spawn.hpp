// bench/spawn/spawn.hpp -- the one script of `spawn` that every fiber library plays.
//
// A fiber starts 1000 others, then joins them, again and again until time is up.  Each has a real
// stack and counts that it ran.  The checksum verifies that each ran once per batch.

#pragma once

#include "framework/workload.hpp"
#include "support/clock.hpp"
#include "support/random.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

template <class Fibers>
class spawn_batches {
public:
    explicit spawn_batches(Fibers& fibers) : fibers_(fibers), started_(size), ran_(size) {}

    void run_one() {
        for (std::size_t i = 0; i < size; ++i) {
            started_[i] = fibers_.spawn([this, i] { ++ran_[i]; });
        }
        for (auto& each : started_) {
            each.join();
        }
        ++batches_;
    }

    [[nodiscard]] std::uint64_t checksum() const {
        running_hash lost;
        for (const std::uint64_t times : ran_) {
            lost.add(times - batches_);
        }
        return lost.value();
    }

    static constexpr std::size_t size = 1000;

private:
    Fibers& fibers_;
    std::vector<typename Fibers::fiber> started_;
    std::vector<std::uint64_t> ran_;  // element i is written by fiber i of each batch
    std::uint64_t batches_ = 0;
};

template <class Fibers>
[[nodiscard]] outcome run_spawn(const job& asked) {
    outcome found;
    const auto inside = [&](Fibers& fibers) {
        spawn_batches<Fibers> batches(fibers);
        for (int warm_up = 0; warm_up < 5; ++warm_up) {
            batches.run_one();
        }
        const stopwatch watch;
        std::size_t measured = 0;
        while (watch.ns() < asked.seconds * 1e9) {
            batches.run_one();
            measured += batches.size;
        }
        found.figures["ns_per_op"] = watch.ns() / static_cast<double>(measured);
        found.checksum = batches.checksum();
    };
    Fibers::run(asked.params.integer("workers"), inside, [] {});
    return found;
}

}  // namespace bench
