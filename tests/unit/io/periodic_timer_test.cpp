#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include "unit/io/io_fixture.hpp"
#include <verge/base/detail/kernel.hpp>
#include <verge/io/periodic_timer.hpp>

#include <functional>
#include <vector>

namespace verge {
namespace {

// A kernel whose steady clock is ahead of the machine's: time passes, and nobody waits for it.
class shifted_clock : public detail::kernel {
public:
    void advance(duration by) { ahead_ += std::max(by, duration::zero()).count(); }
    int clock_gettime(clockid_t clock, timespec* now) noexcept override {
        const int result = kernel::clock_gettime(clock, now);
        if (clock != CLOCK_MONOTONIC) return result;
        const duration shifted =
            std::chrono::seconds(now->tv_sec) + duration(now->tv_nsec + ahead_);
        now->tv_sec = std::chrono::floor<std::chrono::seconds>(shifted).count();
        now->tv_nsec = (shifted - std::chrono::seconds(now->tv_sec)).count();
        return result;
    }

private:
    std::atomic<duration::rep> ahead_{0};
};

// Expiries of the first ticks, in periods since the start.  The handler of the first one lasts for
// `busy`.
std::vector<double> ticks(missed_ticks policy, duration busy, int count, std::uint64_t& missed) {
    shifted_clock time;
    const detail::replaced_kernel scope(time);
    io_context io(1);
    constexpr duration period = 1ms;
    periodic_timer timer(io, period, policy);
    const time_point start = timer.expiry() - period;
    std::vector<double> seen;
    std::function<void(std::error_code)> tick = [&](std::error_code error) {
        EXPECT_FALSE(error);
        EXPECT_GE(now(), timer.expiry());
        seen.push_back(std::chrono::duration<double, std::milli>(timer.expiry() - start).count());
        if (seen.size() == 1) time.advance(timer.expiry() + busy - now());
        if (static_cast<int>(seen.size()) < count) timer.async_wait(tick);
    };
    timer.async_wait(tick);
    io.run();
    missed = timer.missed();
    return seen;
}

bool is_whole(double x) {
    return x == static_cast<double>(static_cast<long>(x));
}

TEST(PeriodicTimer, KeepsItsPhase) {
    std::uint64_t missed = 0;
    const std::vector<double> seen = ticks(missed_ticks::skip, 0ms, 5, missed);
    for (const double t : seen)
        EXPECT_TRUE(is_whole(t)) << t;
    EXPECT_EQ(static_cast<double>(missed) + 5, seen.back());
}

TEST(PeriodicTimer, SkipDropsMissedTicks) {
    std::uint64_t missed = 0;
    const std::vector<double> seen = ticks(missed_ticks::skip, 3500us, 2, missed);
    EXPECT_GE(seen[1], 5);
    EXPECT_TRUE(is_whole(seen[1]));
    EXPECT_EQ(static_cast<double>(missed), seen[1] - 2);
}

TEST(PeriodicTimer, BurstMakesUpForThem) {
    std::uint64_t missed = 0;
    const std::vector<double> seen = ticks(missed_ticks::burst, 3500us, 5, missed);
    EXPECT_EQ(seen, (std::vector<double>{1, 2, 3, 4, 5}));
    EXPECT_EQ(missed, 0U);
}

TEST(PeriodicTimer, DelayStartsANewPhase) {
    std::uint64_t missed = 0;
    const std::vector<double> seen = ticks(missed_ticks::delay, 3500us, 2, missed);
    EXPECT_GE(seen[1], 5.5);
    EXPECT_GE(missed, 3U);
}

TEST(PeriodicTimer, ADeferredWaitBeginsWhenItIsLaunched) {
    io_context io;
    periodic_timer timer(io, 1ns);
    timer.async_wait([](std::error_code) {});
    EXPECT_EQ(io.run(), 1U);
    const time_point last = timer.expiry();
    auto next = timer.async_wait();
    EXPECT_EQ(timer.expiry(), last);
    std::move(next)([](std::error_code) {});
    EXPECT_GT(timer.expiry(), last);
}

TEST(PeriodicTimer, ACancelledTickStaysDue) {
    io_context io;
    periodic_timer timer(io, 1h);
    const time_point due = timer.expiry();
    int aborted = 0;
    const auto count = [&](std::error_code error) {
        aborted += error == error::operation_aborted ? 1 : 100;
    };
    timer.async_wait(count);
    EXPECT_EQ(timer.cancel(), 1U);
    timer.async_wait(count);
    EXPECT_EQ(timer.expiry(), due);
    timer.restart(2h);
    EXPECT_GT(timer.expiry(), due);
    EXPECT_EQ(timer.period(), 2h);
    EXPECT_EQ(io.run(), 2U);
    EXPECT_EQ(aborted, 2);
}

#if VERGE_CAN_REFUSE_MEMORY
TEST(PeriodicTimer, MemoryRefusedLeavesItAsItWas) {
    struct large {
        char bytes[4000];  // more than a thread keeps: operator new is asked
        void operator()(std::error_code error) const { EXPECT_FALSE(error); }
    };
    shifted_clock time;
    const detail::replaced_kernel scope(time);
    io_context io;
    periodic_timer timer(io, 1ms);
    const auto refused = [&] {
        const time_point due = timer.expiry();
        const std::uint64_t missed = timer.missed();
        const failing_new next(1);
        EXPECT_THROW(timer.async_wait(large{}), std::bad_alloc);
        EXPECT_EQ(timer.expiry(), due);
        EXPECT_EQ(timer.missed(), missed);
    };
    const time_point first = timer.expiry();
    time.advance(6ms);
    refused();
    timer.async_wait(large{});  // nobody has waited for the first one
    EXPECT_EQ(timer.expiry(), first);
    EXPECT_EQ(io.run(), 1U);
    refused();
    timer.async_wait(large{});
    EXPECT_GE(timer.expiry(), first + 6ms);
    EXPECT_GE(timer.missed(), 5U);
    io.restart();
    EXPECT_EQ(io.run(), 1U);
}
#endif

}  // namespace
}  // namespace verge
