// bench/fairness/verge.cpp -- `fairness` on Verge's scheduler.

#include "fibers/verge_fibers.hpp"
#include "framework/workload.hpp"
#include "support/clock.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace std::chrono_literals;
using verge::fibers::fiber;

// Computes until this thread has used the slice.
void compute(std::int64_t slice_ns) {
    const bench::stopwatch watch;
    while (watch.ns() < static_cast<double>(slice_ns)) {
    }
}

double median(std::vector<double> all) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                     all.end());
    return all[all.size() / 2];
}

bench::outcome run_verge(const bench::job& asked) {
    const auto slice_ns = static_cast<std::int64_t>(asked.params.integer("slice_us")) * 1000;
    const auto workers = static_cast<std::size_t>(asked.params.integer("workers"));
    std::atomic<bool> end{false};
    std::vector<double> late;
    std::vector<double> spawn;
    verge::fibers::scheduler fibers(bench::verge_workers(workers));
    std::vector<fiber<>> busy;
    for (std::size_t i = 0; i < 2 * workers; ++i) {
        busy.push_back(fibers.spawn([&] {
            while (!end.load(std::memory_order_relaxed)) {  // relaxed: a flag
                compute(slice_ns);
                verge::this_fiber::yield();
            }
        }));
    }
    auto sleeper = fibers.spawn([&] {
        const bench::stopwatch watch;
        do {
            const bench::stopwatch slept;
            verge::this_fiber::sleep_for(10ms);
            late.push_back(slept.ns() / 1e6 - 10);
        } while (watch.ns() < asked.seconds * 1e9);
    });
    const bench::stopwatch watch;
    do {
        const bench::stopwatch one;
        fibers.spawn([] {}).join();
        spawn.push_back(one.ns() / 1e6);
    } while (watch.ns() < asked.seconds * 1e9);
    sleeper.join();
    end = true;
    busy.clear();
    bench::outcome found;
    found.figures["sleep_late_p50_ms"] = median(late);
    found.figures["sleep_late_max_ms"] = *std::max_element(late.begin(), late.end());
    found.figures["spawn_p50_ms"] = median(spawn);
    found.figures["spawn_max_ms"] = *std::max_element(spawn.begin(), spawn.end());
    return found;
}

const bench::add_peer registered{{.work = "fairness", .name = "verge", .run = run_verge}};

}  // namespace
