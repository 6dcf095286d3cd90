// verge/base/histogram.hpp -- the distribution of 64-bit values, in fixed memory.
//
//     verge::histogram lateness;                              // 30 KB
//     lateness.record(ns);                                    // one thread: a few nanoseconds
//     auto seen = lateness.snapshot();                        // any thread, at any time
//     seen.percentile(99.9);
//
// It is log-linear: 64 buckets per octave, so that a bucket is at most 1/64 of its values wide.
// It is for durations and sizes that are recorded often and read rarely.  It is not for values
// whose last digits matter (percentiles are rounded, see below) nor for many recording threads:
// give each thread its own, and merge the snapshots.
//
// Guarantees, under the names of the tests that hold them
//   PercentilesAreWithinOnePercent    of a recorded value of that rank, for all 64-bit values;
//                                     exact below 128, and exact for the least and the greatest.
//   CountMinMaxAndSumAreExact         count and sum saturate at 2^64 - 1.
//   ASnapshotTakenWhileRecordingIsCoherent
//                                     min <= percentile(p) <= max, and its counts are a sum of
//                                     whole records; sum, min and max may lead or trail by one
//                                     record.
//
// Memory orders
//   All relaxed.  One thread writes, by a load and a store, without a locked instruction.  Readers
//   need no order between the numbers; the snapshot makes min and max agree with the buckets.
//
// Thread safety: record() from one thread at a time; snapshot() from any.  A snapshot is a value.
// Exceptions: snapshot(), merge() and copies of a snapshot may throw std::bad_alloc.

#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace verge {

/// The contents of a histogram at one time, or several merged.
class histogram_snapshot {
public:
    /// How many values were recorded.
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    /// Their sum, up to 2^64 - 1.
    [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
    /// The least and the greatest of them; 0 if there are none.
    [[nodiscard]] std::uint64_t min() const noexcept { return min_; }
    [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
    /// sum / count; 0 if there are none.
    [[nodiscard]] double mean() const noexcept;

    /// The least value that at least `p` percent of the records do not exceed, to within 1 %.
    /// 0 gives min(), 100 gives max(), and other `p` outside of that (NaN too) the nearer of them.
    [[nodiscard]] std::uint64_t percentile(double p) const noexcept;

    /// Adds the records of another one.
    void merge(const histogram_snapshot& other);

    /// Calls f(lowest value, highest value, count) for every bucket that is not empty, in order.
    template <class F>
    void visit(F&& f) const;

private:
    friend class histogram;

    std::vector<std::uint64_t> counts_;  // up to the last bucket that is not empty
    std::uint64_t count_ = 0;
    std::uint64_t sum_ = 0;
    std::uint64_t min_ = 0;
    std::uint64_t max_ = 0;
};

class histogram {
public:
    // ---- The layout ----------------------------------------------------------------------------
    // Bucket b holds the values lowest_of(b) .. highest_of(b).  Values below 64 have a bucket each;
    // above, each octave [2^k, 2^(k+1)) has 64 buckets of equal width.

    static constexpr unsigned bits_per_octave = 6;
    static constexpr std::size_t per_octave = std::size_t{1} << bits_per_octave;
    static constexpr std::size_t bucket_count = per_octave * (64 - bits_per_octave + 1);

    [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
        if (value < per_octave) return value;
        const auto shift = static_cast<unsigned>(std::bit_width(value)) - bits_per_octave - 1;
        return shift * per_octave + (value >> shift);  // the second is 64 .. 127
    }
    [[nodiscard]] static constexpr std::uint64_t lowest_of(std::size_t bucket) noexcept {
        if (bucket < per_octave) return bucket;
        return (per_octave + bucket % per_octave) << (bucket / per_octave - 1);
    }
    [[nodiscard]] static constexpr std::uint64_t highest_of(std::size_t bucket) noexcept {
        return lowest_of(bucket + 1) - 1;  // for the last one 0 - 1, which is 2^64 - 1
    }

    /// Adds a value, `times` times.  One thread at a time.
    void record(std::uint64_t value, std::uint64_t times = 1) noexcept {
        if (times == 0) return;
        add(counts_[bucket_of(value)], times);
        std::uint64_t product = 0;
        add(sum_, __builtin_mul_overflow(value, times, &product) ? none : product);
        // relaxed, four times: only this thread writes them, and readers need no order.
        if (value < min_.load(std::memory_order_relaxed)) {
            min_.store(value, std::memory_order_relaxed);
        }
        if (value > max_.load(std::memory_order_relaxed)) {
            max_.store(value, std::memory_order_relaxed);
        }
    }

    /// A copy of the present contents.  Any thread.
    [[nodiscard]] histogram_snapshot snapshot() const;

private:
    using word = std::atomic<std::uint64_t>;
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

    static void add(word& to, std::uint64_t n) noexcept {
        std::uint64_t sum = 0;
        // relaxed: only the recording thread writes; a load and a store need no lock prefix.
        if (__builtin_add_overflow(to.load(std::memory_order_relaxed), n, &sum)) sum = none;
        to.store(sum, std::memory_order_relaxed);  // relaxed: readers need no order
    }

    // Written by the recording thread only, read by all.
    std::array<word, bucket_count> counts_{};
    word sum_{0};
    word min_{none};
    word max_{0};
};

template <class F>
void histogram_snapshot::visit(F&& f) const {
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
        if (counts_[bucket] == 0) continue;
        f(histogram::lowest_of(bucket), histogram::highest_of(bucket), counts_[bucket]);
    }
}

}  // namespace verge
