#include <verge/base/detail/annotate.hpp>
#include <verge/base/detail/fast_clock.hpp>
#include <verge/base/detail/in_place.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge::detail {
namespace {

using namespace std::chrono_literals;

constexpr int million = has_tsan ? 200'000 : 1'000'000;

// What some reads found, each between two reads of the clock itself.
struct found {
    std::int64_t reads = 0;
    std::int64_t below = 0;  // the clock before it
    duration above{};        // the clock after it, at most

    void read() { read(&upper_now); }
    template <class Read>
    void read(Read fast_clock) {
        const time_point before = steady_source{}.now();
        const time_point fast = fast_clock();
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

// Sets whether the counter is read at the beginning of a pending_now, for a scope.
class reading_early {
public:
    explicit reading_early(bool early) : before_(upper_now_is_fast() && overlaps.exchange(early)) {}
    ~reading_early() { overlaps = before_; }
    reading_early(const reading_early&) = delete;
    reading_early& operator=(const reading_early&) = delete;

private:
    static constexpr std::atomic<bool>& overlaps = in_place::counter_overlaps;
    bool before_;
};

// `meanwhile` stands for the work between the beginning and the end.
template <class Meanwhile>
[[gnu::noinline]] time_point read_pending(Meanwhile meanwhile) {
    const in_place::pending_now now;
    meanwhile();
    return now.get();
}

TEST(FastClock, APendingReadingIsNeverBelowTheClockAtItsBeginning) {
    for (const bool early : {false, true}) {
        const reading_early scope(early);
        found f;
        for (int i = 0; i < million / 4; ++i)
            f.read([] { return read_pending([] {}); });
        f.check();
    }
}

// The work in between may wait for longer than an anchor lasts, and may make a new one.
TEST(FastClock, APendingReadingOutlivesItsAnchor) {
    for (const bool early : {false, true}) {
        const reading_early scope(early);
        found f;
        for (int i = 0; i < 2000; ++i) {
            f.read([i] {
                return read_pending([i] {
                    const time_point until = steady_source{}.now() + duration(i % 64 * 1000);
                    while (steady_source{}.now() < until) {
                    }
                    if (i % 2 == 0) static_cast<void>(upper_now());
                });
            });
        }
        f.check();
    }
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
