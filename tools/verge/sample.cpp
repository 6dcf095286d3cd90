// tools/verge/sample.cpp -- a load's figures over time.

#include "sample.hpp"

#include <algorithm>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

namespace verge::tool {

namespace {

double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t all = 0;
    std::uint64_t resident = 0;
    if (!(file >> all >> resident)) return 0;  // no /proc: it is not known
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

struct bucket {
    std::uint64_t lowest;
    std::uint64_t highest;
    std::uint64_t count;
};

// What was recorded between two snapshots of one histogram, in order.
std::vector<bucket> difference(const histogram_snapshot& before, const histogram_snapshot& after) {
    std::vector<bucket> old;
    before.visit([&](std::uint64_t lowest, std::uint64_t highest, std::uint64_t count) {
        old.push_back({lowest, highest, count});
    });
    std::vector<bucket> fresh;
    auto next = old.begin();
    after.visit([&](std::uint64_t lowest, std::uint64_t highest, std::uint64_t count) {
        if (next != old.end() && next->lowest == lowest) count -= (next++)->count;
        if (count > 0) fresh.push_back({lowest, highest, count});
    });
    return fresh;
}

// In microseconds; as histogram_snapshot::percentile, but for the ends, which are not known
// exactly.
double percentile_us(const std::vector<bucket>& buckets, double p, std::uint64_t greatest) {
    std::uint64_t all = 0;
    for (const bucket& each : buckets)
        all += each.count;
    const auto rank = static_cast<double>(all) * p / 100;
    std::uint64_t seen = 0;
    for (const bucket& each : buckets) {
        seen += each.count;
        if (static_cast<double>(seen) < rank) continue;
        const std::uint64_t middle = each.lowest + (each.highest - each.lowest) / 2;
        return static_cast<double>(std::min(p < 100 ? middle : each.highest, greatest)) / 1e3;
    }
    return 0;
}

}  // namespace

sampler::sampler(const load& of)
    : load_(of),
      begin_(steady_source{}.now()),
      last_at_(begin_),
      last_cpu_seconds_(cpu_seconds()),
      last_(of.figures()) {}

sample sampler::take() {
    sample taken;
    taken.figures = load_.figures();
    const time_point at = steady_source{}.now();
    const double cpu = cpu_seconds();
    // Two samples of one moment show no rate, rather than an infinite one.
    const double passed = std::chrono::duration<double>(at - last_at_).count();
    const double per_second = passed > 0 ? 1 / passed : 0;
    taken.seconds = std::chrono::duration<double>(at - begin_).count();
    taken.calls_per_second = static_cast<double>(taken.figures.calls - last_.calls) * per_second;
    taken.processors = (cpu - last_cpu_seconds_) * per_second;
    taken.resident_bytes = resident_bytes();
    const std::vector<bucket> late = difference(last_.lateness, taken.figures.lateness);
    const std::uint64_t greatest = taken.figures.lateness.max();
    taken.late_p50_us = percentile_us(late, 50, greatest);
    taken.late_p99_us = percentile_us(late, 99, greatest);
    taken.late_p999_us = percentile_us(late, 99.9, greatest);
    taken.late_max_us = percentile_us(late, 100, greatest);
    last_at_ = at;
    last_cpu_seconds_ = cpu;
    last_ = taken.figures;
    return taken;
}

}  // namespace verge::tool
