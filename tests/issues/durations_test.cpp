// hours::max() overflowed where a function took nanoseconds: waits returned and timers fired at
// once. All functions that take a duration round up and saturate, by one helper: saturated_to().

#include "unit/fibers/fiber_fixture.hpp"
#include <verge/base/clock.hpp>
#include <verge/driver/timer_thread.hpp>
#include <verge/io/cancel_after.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/periodic_timer.hpp>
#include <verge/io/post.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/system_timer.hpp>
#include <verge/sync/event.hpp>
#include <verge/sync/mutex.hpp>
#include <verge/sync/once.hpp>
#include <verge/sync/semaphore.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace verge {
namespace {

using namespace std::chrono_literals;
using std::chrono::hours;

constexpr std::chrono::duration<std::uint64_t> most_seconds =
    std::chrono::duration<std::uint64_t>::max();
constexpr std::chrono::duration<double> infinite(std::numeric_limits<double>::infinity());

TEST(Durations, SaturateAndRoundUp) {
    EXPECT_EQ(saturated(hours::max()), duration::max());
    EXPECT_EQ(saturated(hours::min()), duration::min());
    EXPECT_EQ(saturated(most_seconds), duration::max());
    EXPECT_EQ(saturated(infinite), duration::max());
    EXPECT_EQ(saturated(-infinite), duration::min());
    EXPECT_EQ(saturated(std::chrono::duration<double>(std::nan(""))), duration::max());
    EXPECT_EQ(saturated(1.5s), 1500ms);
    EXPECT_EQ(saturated(std::chrono::duration<float>(-0.25F)), -250ms);
    using picoseconds = std::chrono::duration<std::int64_t, std::pico>;
    EXPECT_EQ(saturated(picoseconds(1)), 1ns);
    EXPECT_EQ(saturated(picoseconds(1000)), 1ns);
    EXPECT_EQ(saturated(picoseconds(-1)), 0ns);
    EXPECT_EQ(saturated(picoseconds(-1001)), -1ns);
    EXPECT_EQ(saturated_to<std::chrono::milliseconds>(1ns), 1ms);
    EXPECT_EQ(saturated_to<std::chrono::milliseconds>(-1ns), 0ms);
}

// Against 128-bit arithmetic written out in another way.
template <class From>
void expect_exact(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    using factor = std::ratio_divide<typename From::period, std::nano>;
    for (int i = 0; i < 10'000; ++i) {
        const auto count = static_cast<typename From::rep>(random() >> (random() % 64));
        const long double exact = static_cast<long double>(count) * factor::num / factor::den;
        const duration got = saturated_to<duration>(From(count));
        if (exact > 9.3e18L) {
            EXPECT_EQ(got, duration::max());
        } else if (exact < -9.3e18L) {
            EXPECT_EQ(got, duration::min());
        } else if (std::abs(exact) < 9.2e18L) {
            EXPECT_EQ(static_cast<long double>(got.count()), std::ceil(exact)) << count;
        }
    }
}

TEST(Durations, AreExactInEveryUnit) {
    expect_exact<std::chrono::microseconds>(1);
    expect_exact<std::chrono::duration<std::int64_t>>(2);
    expect_exact<hours>(3);
    expect_exact<std::chrono::duration<std::uint64_t, std::milli>>(4);
    expect_exact<std::chrono::duration<std::int64_t, std::ratio<1, 3'000'000'000>>>(5);
    expect_exact<std::chrono::duration<std::int32_t, std::ratio<86400>>>(6);
}

TEST(Durations, TimersOfALoopDoNotFireAtOnce) {
    io_context io;
    int fired = 0;
    const auto count = [&](std::error_code error) { fired += error ? 0 : 1; };
    steady_timer made(io, hours::max());
    steady_timer set(io);
    set.expires_after(hours::max());
    steady_timer by_executor(io.get_executor(), most_seconds);
    system_timer date(io, hours::max());
    EXPECT_EQ(made.expiry(), never);
    EXPECT_EQ(set.expiry(), never);
    EXPECT_EQ(by_executor.expiry(), never);
    EXPECT_EQ(date.expiry(), std::chrono::system_clock::time_point::max());
    periodic_timer ticks(io, hours::max());
    EXPECT_EQ(ticks.expiry(), never);
    ticks.restart(infinite);
    EXPECT_EQ(ticks.period(), duration::max());
    EXPECT_EQ(ticks.expiry(), never);
    made.async_wait(count);
    set.async_wait(count);
    by_executor.async_wait(count);
    date.async_wait(count);
    ticks.async_wait(count);
    steady_timer slow(io, 1h);
    steady_timer limit(io);
    slow.async_wait(cancel_after(limit, hours::max(), count));
    io.poll();
    EXPECT_EQ(fired, 0);
    steady_timer quick(io, 0.5ms);
    quick.async_wait([&](std::error_code) { io.stop(); });
    io.run_for(hours::max());
    EXPECT_EQ(fired, 0);
}

TEST(Durations, WaitsDoNotReturnAtOnce) {
    fibers::scheduler fibers;
    event go;
    fibers::fiber<> f = fibers.spawn([&] { go.wait(); });
    std::thread later([&] {
        for (int i = 0; i < 100; ++i)
            std::this_thread::yield();
        go.set();
    });
    EXPECT_TRUE(f.wait_for(hours::max()));
    later.join();
    EXPECT_EQ(go.wait_for(most_seconds), wait_result::notified);
    once_flag flag;
    EXPECT_TRUE(call_once_for(flag, hours::max(), [] {}));
}

TEST(Durations, TimerThreadTakesAnyUnit) {
    timer_thread timers;
    for (const timer_id id :
         {timers.schedule_after(hours::max(), [] {}), timers.schedule_after(most_seconds, [] {}),
          timers.schedule_after(infinite, [] {}), timers.schedule_every(infinite, [] {})}) {
        EXPECT_EQ(timers.remaining(id), duration::max());
        EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
    }
    const timer_id soon = timers.schedule_after(1.5h, [] {});
    EXPECT_GT(timers.remaining(soon).value(), 80min);
    EXPECT_LE(timers.remaining(soon).value(), 90min);
}

}  // namespace
}  // namespace verge
