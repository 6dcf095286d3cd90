// Spawns from outside, sleeps that ended and descriptor events waited for 61 picks of a busy
// worker, however long a pick is: 110 ms where fibers compute for 1 ms between yields.
//
// The clock is the test's own: a slice is a step of it, and nothing depends on the machine's speed.

#include "unit/fibers/fiber_fixture.hpp"
#include <verge/base/detail/kernel.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verge::fibers {
namespace {

// CLOCK_MONOTONIC moves by what fibers compute.
struct stepped_kernel : verge::detail::kernel {
    std::atomic<std::int64_t> ns{1'000'000'000};
    int clock_gettime(clockid_t clock, timespec* now) noexcept override {
        if (clock != CLOCK_MONOTONIC) return kernel::clock_gettime(clock, now);
        const std::int64_t at = ns += 100;  // a loop that waits for the clock ends
        *now = {.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000};
        return 0;
    }
};

class OutsideWork : public testing::TestWithParam<duration> {
protected:
    // Two fibers a worker that compute for a slice between yields, until the test ends.
    void begin(std::size_t workers) {
        fibers_ = std::make_unique<scheduler>(
            scheduler::options{.min_workers = workers, .max_workers = workers});
        for (std::size_t i = 0; i < 2 * workers; ++i) {
            busy_.push_back(fibers_->spawn([this] {
                while (!end_) {
                    kernel_.ns += GetParam().count();
                    ++slices_;
                    this_fiber::yield();
                }
            }));
        }
        while (slices_ < 1000)
            std::this_thread::yield();
    }
    void TearDown() override {
        end_ = true;
        busy_.clear();
        fibers_.reset();
    }

    // How many slices pass from the return of a spawn by this thread until the fiber runs, the
    // median of many.
    std::uint64_t slices_until_run() {
        std::vector<std::uint64_t> all;
        for (int i = 0; i < 101; ++i) {
            std::uint64_t ran = 0;
            fiber<> f = fibers_->spawn([&] { ran = slices_; });
            const std::uint64_t spawned = slices_;
            f.join();
            all.push_back(ran > spawned ? ran - spawned : 0);
        }
        std::sort(all.begin(), all.end());
        return all[all.size() / 2];
    }

    stepped_kernel kernel_;
    const verge::detail::replaced_kernel scope_{kernel_};
    std::atomic<bool> end_{false};
    std::atomic<std::uint64_t> slices_{0};
    std::unique_ptr<scheduler> fibers_;
    std::vector<fiber<>> busy_;
};

// With a round of 61 picks it was about half of them.
TEST_P(OutsideWork, WaitsForAFewSlicesIfTheyAreLong) {
    begin(1);
    EXPECT_LE(slices_until_run(), 8U);
}

INSTANTIATE_TEST_SUITE_P(Slices, OutsideWork, testing::Values(1ms, 5ms),
                         [](const auto& of) { return std::to_string(of.param / 1us) + "us"; });

}  // namespace
}  // namespace verge::fibers
