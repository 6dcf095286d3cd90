#include <verge/base/detail/annotate.hpp>
#include <verge/base/detail/fast_clock.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sched.h>

namespace verge::detail {
namespace {

using namespace std::chrono_literals;

constexpr int million = has_tsan ? 200'000 : 1'000'000;

// What some reads found, each between two reads of the clock itself.
struct found {
    std::int64_t reads = 0;
    std::int64_t below = 0;  // the clock before it
    duration above{};        // the clock after it, at most

    void read() {
        const time_point before = steady_source{}.now();
        const time_point fast = upper_now();
        const time_point after = steady_source{}.now();
        ++reads;
        if (fast < before) ++below;
        above = std::max(above, fast - after);
    }
    void check() const {
        EXPECT_GT(reads, 0);
        EXPECT_EQ(below, 0) << "a deadline from here would come too early";
        EXPECT_LE(above, 10us);
    }
};

TEST(FastClock, IsNeverBelowTheClockAndHardlyAbove) {
    found f;
    for (int i = 0; i < million; ++i)
        f.read();
    f.check();
}

// Anchors of every age, and times at which there is none.
TEST(FastClock, IsNeverBelowTheClockAfterAPause) {
    found f;
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        const time_point until = steady_source{}.now() + duration(random() % 40'000);
        while (steady_source{}.now() < until) {
        }
        if (i % 100 == 0) ::sched_yield();
        f.read();
        f.read();
    }
    f.check();
}

// What it adds to an anchor is counted from the anchor: many reads in a row do not drift.
TEST(FastClock, DoesNotDrift) {
    found f;
    for (int i = 0; i < million / 100; ++i) {
        for (int j = 0; j < 200; ++j)
            static_cast<void>(upper_now());
        f.read();
    }
    f.check();
}

TEST(FastClock, ServesThreadsThatComeFirstTogether) {
    constexpr int threads = 4;
    std::vector<found> all(threads);
    std::atomic<int> ready{0};
    std::vector<std::thread> readers;
    for (found& f : all) {
        readers.emplace_back([&f, &ready] {
            ++ready;
            while (ready < threads)
                ::sched_yield();
            for (int i = 0; i < million / threads; ++i)
                f.read();
        });
    }
    for (std::thread& reader : readers)
        reader.join();
    for (const found& f : all)
        f.check();
}

TEST(FastClock, SaysTheSameAlways) {
    const bool fast = upper_now_is_fast();
    for (int i = 0; i < 1000; ++i)
        ASSERT_EQ(upper_now_is_fast(), fast);
}

TEST(FastClock, ServesAForkedChild) {
    static_cast<void>(upper_now());
    const pid_t child = ::fork();
    if (child == 0) {
        found f;
        for (int i = 0; i < 10'000; ++i)
            f.read();
        ::_exit(f.below == 0 && f.above <= 10us ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verge::detail
