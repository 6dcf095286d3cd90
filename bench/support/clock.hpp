// bench/support/clock.hpp -- time as the benchmarks measure it.

#pragma once

#include <chrono>
#include <cstdint>

#include <time.h>

namespace bench {

/// CLOCK_MONOTONIC in nanoseconds.
[[nodiscard]] inline std::int64_t now_ns() noexcept {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// std::chrono's clock of the same name and epoch, for peers that speak chrono.
[[nodiscard]] inline std::chrono::steady_clock::time_point as_time_point(std::int64_t ns) noexcept {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

/// CPU time of the calling thread, in nanoseconds: what work costs that never waits, also on a
/// machine where others run.  A system call: for long stretches only.
[[nodiscard]] inline std::int64_t thread_cpu_ns() noexcept {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// CPU time of all threads of this process, in nanoseconds.
[[nodiscard]] inline std::int64_t process_cpu_ns() noexcept {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

class stopwatch {
public:
    [[nodiscard]] double ns() const noexcept { return static_cast<double>(now_ns() - start_); }

private:
    std::int64_t start_ = now_ns();
};

}  // namespace bench
