// src/base/histogram.cpp -- snapshots of a histogram, their percentiles and their merge.

#include <verge/base/histogram.hpp>

#include <algorithm>
#include <cmath>

namespace verge {

namespace {

std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

// ceil(p percent of count), at least 1.  Products such as 8.8 * 375 / 100 are rounded to just above
// the exact integer, so a few units in the last place are subtracted first.
std::uint64_t rank_of(double p, std::uint64_t count) noexcept {
    constexpr double shy = 1 - 4 * std::numeric_limits<double>::epsilon();
    const double rank = std::ceil(p * static_cast<double>(count) / 100 * shy);
    if (rank >= static_cast<double>(count)) return count;
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rank));
}

}  // namespace

histogram_snapshot histogram::snapshot() const {
    histogram_snapshot result;
    result.counts_.resize(bucket_count);
    std::size_t first = bucket_count;
    std::size_t used = 0;  // one past the last bucket that is not empty
    for (std::size_t bucket = 0; bucket < bucket_count; ++bucket) {
        // relaxed: each count is valid by itself, and no order between them is promised.
        const std::uint64_t n = counts_[bucket].load(std::memory_order_relaxed);
        if (n == 0) continue;
        result.counts_[bucket] = n;
        result.count_ = saturated_sum(result.count_, n);
        first = std::min(first, bucket);
        used = bucket + 1;
    }
    result.counts_.resize(used);
    if (used == 0) return result;
    // relaxed, three times: during a record() these may be older or newer than the buckets; min and
    // max are clamped into the outermost buckets.
    result.sum_ = sum_.load(std::memory_order_relaxed);
    result.min_ =
        std::clamp(min_.load(std::memory_order_relaxed), lowest_of(first), highest_of(first));
    result.max_ =
        std::clamp(max_.load(std::memory_order_relaxed), lowest_of(used - 1), highest_of(used - 1));
    result.min_ = std::min(result.min_, result.max_);
    return result;
}

double histogram_snapshot::mean() const noexcept {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::uint64_t histogram_snapshot::percentile(double p) const noexcept {
    if (count_ == 0 || !(p > 0)) return min_;  // NaN too
    if (p >= 100) return max_;
    const std::uint64_t rank = rank_of(p, count_);
    if (rank == 1) return min_;
    if (rank == count_) return max_;
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
        seen = saturated_sum(seen, counts_[bucket]);
        if (seen < rank) continue;
        const std::uint64_t lowest = histogram::lowest_of(bucket);
        const std::uint64_t middle = lowest + (histogram::highest_of(bucket) - lowest) / 2;
        return std::clamp(middle, min_, max_);
    }
    return max_;
}

void histogram_snapshot::merge(const histogram_snapshot& other) {
    if (other.count_ == 0) return;
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t bucket = 0; bucket < other.counts_.size(); ++bucket) {
        counts_[bucket] = saturated_sum(counts_[bucket], other.counts_[bucket]);
    }
    min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    count_ = saturated_sum(count_, other.count_);
    sum_ = saturated_sum(sum_, other.sum_);
}

}  // namespace verge
