// bench/services/thread_run.hpp -- T threads doing operations for a while, and what that cost.
//
// All threads prepare, begin together, count operations until time is up, and end together; memory,
// CPU time and the service thread's wake-ups are taken between these two points.

#pragma once

#include "framework/workload.hpp"

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace bench {

/// The metrics of `rpc` and `rpc-cross`.
[[nodiscard]] std::vector<metric> thread_run_metrics();

class thread_run {
public:
    /// `service_thread` is the kernel's id of the service's thread, or 0 if there is none.
    thread_run(std::size_t threads, double seconds, int service_thread);

    /// One thread's side.
    class worker {
    public:
        void begin();  ///< Waits for all others.
        /// relaxed: only a sign to end; what the threads wrote meets at the barrier of end().
        [[nodiscard]] bool goes_on() const { return !run_.stop_.load(std::memory_order_relaxed); }
        void count(std::uint64_t operations) { operations_ += operations; }
        void end();  ///< Waits for all others.

        [[nodiscard]] std::size_t index() const { return index_; }

    private:
        friend thread_run;
        worker(thread_run& run, std::size_t index) : run_(run), index_(index) {}

        thread_run& run_;
        std::size_t index_;
        std::uint64_t operations_ = 0;
        std::int64_t start_ = 0;
    };

    /// Runs `body` in each thread; it calls begin() and end() once each.
    void execute(const std::function<void(worker&)>& body);

    [[nodiscard]] std::map<std::string, double> figures() const { return figures_; }

private:
    struct sample;
    [[nodiscard]] sample take_sample() const;

    std::size_t threads_;
    double seconds_;
    int service_thread_;
    std::barrier<> together_;
    std::atomic<bool> stop_{false};             // written by the caller of execute
    std::atomic<std::uint64_t> operations_{0};  // both: each thread adds its own in end()
    std::atomic<std::int64_t> thread_ns_{0};
    std::map<std::string, double> figures_;
};

}  // namespace bench
