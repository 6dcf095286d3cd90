// bench/services/thread_run.cpp -- T threads doing operations for a while, and what that cost.

#include "services/thread_run.hpp"

#include "support/clock.hpp"
#include "support/process.hpp"

#include <chrono>
#include <thread>
#include <vector>

namespace bench {

std::vector<metric> thread_run_metrics() {
    return {{"ns_per_op", "ns"},
            {"ops_per_s", "1/s"},
            {"rss_growth_kb", "kB"},
            {"cpu_ns_per_op", "ns"},
            {"wakeups_per_s", "1/s"}};
}

struct thread_run::sample {
    std::int64_t resident_kb, switches, cpu_ns, time_ns;
};

thread_run::thread_run(std::size_t threads, double seconds, int service_thread)
    : threads_(threads),
      seconds_(seconds),
      service_thread_(service_thread),
      together_(static_cast<std::ptrdiff_t>(threads) + 1) {}

void thread_run::worker::begin() {
    run_.together_.arrive_and_wait();  // all are prepared; the first sample is taken
    run_.together_.arrive_and_wait();  // go
    start_ = now_ns();
}

void thread_run::worker::end() {
    run_.thread_ns_ += now_ns() - start_;
    run_.operations_ += operations_;
    run_.together_.arrive_and_wait();  // all have ended; the second sample is taken
    run_.together_.arrive_and_wait();  // clean up
}

// Slow readings first and last, so that they are outside of the measured time.
thread_run::sample thread_run::take_sample() const {
    sample taken{};
    taken.resident_kb = resident_kb();
    taken.switches = service_thread_ == 0 ? 0 : voluntary_switches(service_thread_);
    taken.cpu_ns = process_cpu_ns();
    taken.time_ns = now_ns();
    return taken;
}

void thread_run::execute(const std::function<void(worker&)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < threads_; ++i) {
        threads.emplace_back([this, i, &body] {
            worker self(*this, i);
            body(self);
        });
    }
    together_.arrive_and_wait();
    const sample before = take_sample();
    together_.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    stop_ = true;
    together_.arrive_and_wait();
    const std::int64_t end_ns = now_ns();
    const std::int64_t end_cpu_ns = process_cpu_ns();
    const sample after = take_sample();
    together_.arrive_and_wait();
    for (std::thread& thread : threads) {
        thread.join();
    }

    const auto operations = static_cast<double>(operations_);
    const double wall_ns = static_cast<double>(end_ns - before.time_ns);
    figures_["ns_per_op"] = static_cast<double>(thread_ns_) / operations;
    figures_["ops_per_s"] = operations / wall_ns * 1e9;
    figures_["rss_growth_kb"] = static_cast<double>(after.resident_kb - before.resident_kb);
    figures_["cpu_ns_per_op"] = static_cast<double>(end_cpu_ns - before.cpu_ns) / operations;
    figures_["wakeups_per_s"] =
        static_cast<double>(after.switches - before.switches) / wall_ns * 1e9;
}

}  // namespace bench
