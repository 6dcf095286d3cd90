#include <verge/base/histogram.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace verge {
namespace {

constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();

// ---- the layout
// ----------------------------------------------------------------------------------

TEST(HistogramLayout, NeedsAboutThirtyKilobytes) {
    EXPECT_EQ(histogram::bucket_count, 3776u);
    EXPECT_LT(sizeof(histogram), 31'000u);
}

TEST(HistogramLayout, BucketsFollowEachOtherWithoutGapOrOverlap) {
    EXPECT_EQ(histogram::lowest_of(0), 0u);
    for (std::size_t bucket = 0; bucket < histogram::bucket_count; ++bucket) {
        const std::uint64_t lowest = histogram::lowest_of(bucket);
        const std::uint64_t highest = histogram::highest_of(bucket);
        ASSERT_LE(lowest, highest);
        ASSERT_EQ(histogram::bucket_of(lowest), bucket);
        ASSERT_EQ(histogram::bucket_of(highest), bucket);
        ASSERT_EQ(histogram::bucket_of(lowest + (highest - lowest) / 2), bucket);
        if (bucket + 1 < histogram::bucket_count) {
            ASSERT_EQ(highest + 1, histogram::lowest_of(bucket + 1));
        }
    }
    EXPECT_EQ(histogram::highest_of(histogram::bucket_count - 1), greatest);
}

TEST(HistogramLayout, ABucketIsAtMostASixtyFourthWide) {
    for (std::size_t bucket = 0; bucket < histogram::bucket_count; ++bucket) {
        const std::uint64_t width = histogram::highest_of(bucket) - histogram::lowest_of(bucket);
        ASSERT_LE(width, histogram::lowest_of(bucket) / 64);
        if (bucket < 128) {
            ASSERT_EQ(width, 0u);
        }
    }
}

// ---- one thread
// ----------------------------------------------------------------------------------

histogram_snapshot of(const std::vector<std::uint64_t>& values) {
    histogram h;
    for (const std::uint64_t value : values)
        h.record(value);
    return h.snapshot();
}

TEST(Histogram, AnEmptyOneIsAllZero) {
    const histogram h;
    for (const histogram_snapshot& s : {h.snapshot(), histogram_snapshot{}}) {
        EXPECT_EQ(s.count(), 0u);
        EXPECT_EQ(s.sum(), 0u);
        EXPECT_EQ(s.min(), 0u);
        EXPECT_EQ(s.max(), 0u);
        EXPECT_EQ(s.mean(), 0);
        for (const double p : {0.0, 50.0, 100.0})
            EXPECT_EQ(s.percentile(p), 0u);
        s.visit([](auto, auto, auto) { ADD_FAILURE() << "there is no bucket to visit"; });
    }
}

TEST(Histogram, CountMinMaxAndSumAreExact) {
    const histogram_snapshot s = of({1'000'003, 17, 999'999'999'989, 17, 123'457});
    EXPECT_EQ(s.count(), 5u);
    EXPECT_EQ(s.min(), 17u);
    EXPECT_EQ(s.max(), 999'999'999'989u);
    EXPECT_EQ(s.sum(), 1'000'001'123'483u);
    EXPECT_DOUBLE_EQ(s.mean(), 1'000'001'123'483.0 / 5);
}

TEST(Histogram, ASingleValueIsEveryPercentile) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1'000'003}, greatest}) {
        const histogram_snapshot s = of({value});
        for (const double p : {0.0, 0.1, 50.0, 99.9, 100.0})
            EXPECT_EQ(s.percentile(p), value);
    }
}

TEST(Histogram, EqualValuesHaveThemAsEveryPercentile) {
    const histogram_snapshot s = of({1'000'003, 1'000'003, 1'000'003});
    for (const double p : {0.0, 10.0, 50.0, 90.0, 100.0})
        EXPECT_EQ(s.percentile(p), 1'000'003u);
}

TEST(Histogram, TheFirstAndTheLastRankAreExact) {
    // Two values in the first bucket and two in the last: the middle of a bucket would be wrong.
    const histogram_snapshot s = of({1'000'003, 1'000'009, 2'014'999, 2'015'001});
    EXPECT_EQ(s.percentile(25), 1'000'003u);
    EXPECT_EQ(s.percentile(75.1), 2'015'001u);
}

TEST(Histogram, SmallValuesHaveExactPercentiles) {
    std::vector<std::uint64_t> values;
    for (std::uint64_t v = 1; v <= 100; ++v)
        values.push_back(v);
    const histogram_snapshot s = of(values);
    for (std::uint64_t p = 1; p <= 100; ++p) {
        EXPECT_EQ(s.percentile(static_cast<double>(p)), p);
    }
    EXPECT_EQ(s.percentile(0.5), 1u);
    EXPECT_EQ(s.percentile(1.5), 2u);
    EXPECT_EQ(s.percentile(99.1), 100u);
}

TEST(Histogram, APercentileIsNotMovedByRoundingErrors) {
    // 8.8 * 375 / 100 is 33, but a little more in floating point.
    histogram h;
    h.record(1, 33);
    h.record(2, 375 - 33);
    EXPECT_EQ(h.snapshot().percentile(8.8), 1u);
    EXPECT_EQ(h.snapshot().percentile(8.81), 2u);
    for (std::uint64_t count = 1; count <= 1000; ++count) {
        histogram each;
        for (std::uint64_t v = 1; v <= 100; ++v)
            each.record(v, count);
        for (std::uint64_t p = 1; p <= 100; p += 7) {
            ASSERT_EQ(each.snapshot().percentile(static_cast<double>(p)), p) << count;
        }
        if (count > 20) count += 97;
    }
}

TEST(Histogram, ClampsABadPercentage) {
    const histogram_snapshot s = of({10, 20, 30});
    EXPECT_EQ(s.percentile(-1), 10u);
    EXPECT_EQ(s.percentile(-std::numeric_limits<double>::infinity()), 10u);
    EXPECT_EQ(s.percentile(std::nan("")), 10u);
    EXPECT_EQ(s.percentile(100.1), 30u);
    EXPECT_EQ(s.percentile(1e300), 30u);
    EXPECT_EQ(s.percentile(std::numeric_limits<double>::infinity()), 30u);
}

// The value of that rank in a sorted list, by the definition in the header.
std::uint64_t exact_percentile(const std::vector<std::uint64_t>& sorted, double p) {
    const auto rank = std::ceil(p / 100 * static_cast<double>(sorted.size()) - 1e-9);
    return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

TEST(Histogram, PercentilesAreWithinOnePercent) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 50; ++round) {
        std::vector<std::uint64_t> values(1 + random() % 3000);
        for (std::uint64_t& value : values) {
            value = random() >> (round < 25 ? random() % 64 : static_cast<unsigned>(round));
        }
        const histogram_snapshot s = of(values);
        std::sort(values.begin(), values.end());
        for (const double p : {0.0, 0.1, 1.0, 10.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
            const auto exact = static_cast<double>(exact_percentile(values, p));
            ASSERT_NEAR(static_cast<double>(s.percentile(p)), exact, exact * 0.01) << p;
        }
        ASSERT_EQ(s.percentile(0), values.front());
        ASSERT_EQ(s.percentile(100), values.back());
    }
}

TEST(Histogram, EveryBucketBoundaryIsWithinOnePercent) {
    // Three values, so that the middle one is neither the least nor the greatest.
    for (std::size_t bucket = 1; bucket + 1 < histogram::bucket_count; bucket += 13) {
        for (const std::uint64_t value :
             {histogram::lowest_of(bucket), histogram::highest_of(bucket)}) {
            const std::uint64_t seen = of({0, value, greatest}).percentile(50);
            const auto exact = static_cast<double>(value);
            ASSERT_NEAR(static_cast<double>(seen), exact, exact * 0.01);
        }
    }
}

TEST(Histogram, RecordingManyTimesIsRecordingEach) {
    histogram one_by_one;
    histogram at_once;
    for (int i = 0; i < 1000; ++i)
        one_by_one.record(777);
    one_by_one.record(5);
    at_once.record(777, 1000);
    at_once.record(5, 1);
    at_once.record(1'000'000, 0);  // not at all
    const histogram_snapshot a = one_by_one.snapshot();
    const histogram_snapshot b = at_once.snapshot();
    EXPECT_EQ(a.count(), b.count());
    EXPECT_EQ(a.sum(), b.sum());
    EXPECT_EQ(a.min(), b.min());
    EXPECT_EQ(a.max(), b.max());
    for (const double p : {0.0, 0.1, 50.0, 100.0})
        EXPECT_EQ(a.percentile(p), b.percentile(p));
}

TEST(Histogram, StopsCountingInsteadOfOverflowing) {
    histogram h;
    h.record(2, greatest - 1);
    h.record(2, 1);
    EXPECT_EQ(h.snapshot().count(), greatest);
    EXPECT_EQ(h.snapshot().sum(), greatest);
    h.record(2, 5);
    h.record(3, greatest);
    const histogram_snapshot s = h.snapshot();
    EXPECT_EQ(s.count(), greatest);
    EXPECT_EQ(s.sum(), greatest);
    EXPECT_EQ(s.percentile(50), 2u);
    EXPECT_EQ(s.percentile(100), 3u);

    histogram product;
    product.record(std::uint64_t{1} << 40, std::uint64_t{1} << 40);
    EXPECT_EQ(product.snapshot().sum(), greatest);
    EXPECT_EQ(product.snapshot().count(), std::uint64_t{1} << 40);
}

TEST(Histogram, VisitsTheBucketsThatAreNotEmptyInOrder) {
    histogram h;
    h.record(1'000'000, 3);
    h.record(5, 2);
    h.record(greatest);
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> seen;
    h.snapshot().visit([&](std::uint64_t lowest, std::uint64_t highest, std::uint64_t count) {
        seen.emplace_back(lowest, highest, count);
    });
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[0], std::tuple(5u, 5u, 2u));
    EXPECT_LE(std::get<0>(seen[1]), 1'000'000u);
    EXPECT_GE(std::get<1>(seen[1]), 1'000'000u);
    EXPECT_EQ(std::get<2>(seen[1]), 3u);
    EXPECT_EQ(std::get<1>(seen[2]), greatest);
}

// ---- merge
// ---------------------------------------------------------------------------------------

TEST(HistogramSnapshot, MergingIsRecordingInOne) {
    std::mt19937_64 random(2);
    histogram all;
    histogram_snapshot merged;
    for (int part = 0; part < 4; ++part) {
        histogram h;
        for (int i = 0; i < 500; ++i) {
            const std::uint64_t value = random() >> (random() % 64) >> (part * 8);
            h.record(value, 1000);
            all.record(value, 1000);
        }
        merged.merge(h.snapshot());
    }
    const histogram_snapshot expected = all.snapshot();
    EXPECT_EQ(merged.count(), expected.count());
    EXPECT_EQ(merged.sum(), expected.sum());
    EXPECT_EQ(merged.min(), expected.min());
    EXPECT_EQ(merged.max(), expected.max());
    for (double p = 0; p <= 100; p += 0.5) {
        ASSERT_EQ(merged.percentile(p), expected.percentile(p));
    }
}

TEST(HistogramSnapshot, MergingAnEmptyOneChangesNothing) {
    histogram_snapshot s = of({10, 20});
    s.merge(histogram_snapshot{});
    EXPECT_EQ(s.count(), 2u);
    EXPECT_EQ(s.min(), 10u);
    EXPECT_EQ(s.max(), 20u);
    histogram_snapshot empty;
    empty.merge(s);
    EXPECT_EQ(empty.count(), 2u);
    EXPECT_EQ(empty.min(), 10u);
    EXPECT_EQ(empty.max(), 20u);
    EXPECT_EQ(empty.sum(), 30u);
}

TEST(HistogramSnapshot, MergesWithItself) {
    histogram_snapshot s = of({10, 20});
    s.merge(s);
    EXPECT_EQ(s.count(), 4u);
    EXPECT_EQ(s.sum(), 60u);
    EXPECT_EQ(s.percentile(50), 10u);
    EXPECT_EQ(s.percentile(51), 20u);
}

TEST(HistogramSnapshot, MergingStopsInsteadOfOverflowing) {
    histogram h;
    h.record(1, greatest);
    histogram_snapshot s = h.snapshot();
    s.merge(h.snapshot());
    EXPECT_EQ(s.count(), greatest);
    EXPECT_EQ(s.sum(), greatest);
    EXPECT_EQ(s.percentile(50), 1u);
}

// ---- two threads
// ---------------------------------------------------------------------------------

TEST(Histogram, ASnapshotTakenWhileRecordingIsCoherent) {
    const auto h = std::make_unique<histogram>();
    std::atomic<bool> stop{false};
    std::thread recorder([&] {
        std::mt19937_64 random(3);
        while (!stop.load(std::memory_order_relaxed))
            h->record(random() >> (random() % 64));
    });
    std::uint64_t before = 0;
    for (int i = 0; i < 300 || before == 0; ++i) {
        const histogram_snapshot s = h->snapshot();
        std::uint64_t counted = 0;
        s.visit([&](std::uint64_t, std::uint64_t, std::uint64_t n) { counted += n; });
        ASSERT_EQ(counted, s.count());
        ASSERT_GE(s.count(), before);
        before = s.count();
        std::uint64_t last = s.min();
        for (const double p : {0.0, 1.0, 50.0, 99.0, 100.0}) {
            ASSERT_GE(s.percentile(p), last);
            last = s.percentile(p);
        }
        ASSERT_EQ(last, s.max());
    }
    stop = true;
    recorder.join();
}

TEST(Histogram, LosesNoRecordOfItsThread) {
    const auto h = std::make_unique<histogram>();
    std::thread recorder([&] {
        for (std::uint64_t i = 0; i < 100'000; ++i)
            h->record(i);
    });
    recorder.join();
    EXPECT_EQ(h->snapshot().count(), 100'000u);
    EXPECT_EQ(h->snapshot().sum(), 4'999'950'000u);
}

}  // namespace
}  // namespace verge
