// tools/verge/history.cpp -- keeps a bounded number of samples by merging old ones.

#include "history.hpp"

#include <algorithm>
#include <utility>

namespace verge::tool {

namespace {

// `later`, and what happened in the time of both, which stand for so many samples.
sample joined(const sample& before, std::size_t of_before, sample later, std::size_t of_later) {
    const auto mean = [&](double a, double b) {
        const auto n = static_cast<double>(of_before);
        const auto m = static_cast<double>(of_later);
        return (a * n + b * m) / (n + m);
    };
    later.calls_per_second = mean(before.calls_per_second, later.calls_per_second);
    later.processors = mean(before.processors, later.processors);
    later.late_p50_us = std::max(before.late_p50_us, later.late_p50_us);
    later.late_p99_us = std::max(before.late_p99_us, later.late_p99_us);
    later.late_p999_us = std::max(before.late_p999_us, later.late_p999_us);
    later.late_max_us = std::max(before.late_max_us, later.late_max_us);
    later.resident_bytes = std::max(before.resident_bytes, later.resident_bytes);
    return later;
}

}  // namespace

void history::add(const sample& next) {
    if (in_last_ > 0 && in_last_ < together_) {
        kept_.back() = joined(kept_.back(), in_last_, next, 1);
        ++in_last_;
        return;
    }
    if (kept_.size() == most) {
        for (std::size_t i = 0; i < most / 2; ++i)
            kept_[i] = joined(kept_[2 * i], 1, std::move(kept_[2 * i + 1]), 1);
        kept_.resize(most / 2);
        together_ *= 2;
    }
    if (!kept_.empty()) {
        kept_.back().figures.lateness = {};
        kept_.back().figures.worker_busy = {};
    }
    kept_.push_back(next);
    in_last_ = 1;
}

}  // namespace verge::tool
