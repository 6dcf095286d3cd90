#include "load.hpp"

#include "clients.hpp"
#include "sample.hpp"
#include "support/eventually.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using namespace verge::tool;
using verge::eventually;
using verge::time_point;

// Looks until it is so.
template <class Condition>
load_figures wait_until(const load& of, Condition&& is_so) {
    load_figures figures;
    EXPECT_TRUE(eventually([&] {
        figures = of.figures();
        return is_so(figures);
    }));
    return figures;
}

std::ptrdiff_t threads_of_the_process() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

class LoadOn : public testing::TestWithParam<engine_kind> {
protected:
    // Short time-outs: answers and time-outs come in equal parts.
    [[nodiscard]] load_options quick() const {
        return {.engine = GetParam(), .rate = 5'000, .time_out = 4ms, .workers = 2};
    }
    // A call that is lost stays.
    [[nodiscard]] load_options patient() const {
        return {.engine = GetParam(), .rate = 5'000, .time_out = 60s, .workers = 2};
    }
};

INSTANTIATE_TEST_SUITE_P(Engine, LoadOn,
                         testing::Values(engine_kind::thread, engine_kind::fiber,
                                         engine_kind::loop),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST_P(LoadOn, EveryCallHasItsEnd) {
    load calls(quick());
    const load_figures before = wait_until(
        calls, [](const load_figures& f) { return f.answered > 300 && f.given_up > 20; });
    EXPECT_GT(before.retried, before.given_up);  // before the end, at which nothing is sent again
    calls.finish();
    const load_figures f = calls.figures();
    EXPECT_EQ(what_is_wrong(f), "");
    EXPECT_EQ(f.worker_busy.size(), 2U);
    // Exactly, where it is known: a fiber that finds its answer there does not wait for it.
    if (GetParam() != engine_kind::fiber) {
        EXPECT_EQ(f.cancelled, f.answered);
    }
}

TEST_P(LoadOn, NoCallBeginsAfterTheFinish) {
    load calls(quick());
    wait_until(calls, [](const load_figures& f) { return f.calls > 100; });
    calls.finish();
    calls.set_engine(GetParam() == engine_kind::loop ? engine_kind::thread : engine_kind::loop);
    calls.finish();
    const load_figures before = calls.figures();
    // Clients of another one begin calls meanwhile.
    const load others(quick());
    wait_until(others, [](const load_figures& f) { return f.calls > 100; });
    EXPECT_EQ(calls.figures().calls, before.calls);
    EXPECT_EQ(what_is_wrong(before), "");
}

TEST_P(LoadOn, NoMomentShowsMoreEndsThanCalls) {
    load calls(quick());
    load_figures last;
    for (int i = 0; i < 200; ++i) {
        const load_figures f = calls.figures();
        ASSERT_GE(f.calls, f.answered + f.timed_out);
        ASSERT_EQ(f.on_their_way, f.calls - f.answered - f.timed_out);
        ASSERT_GE(f.calls, last.calls);
        ASSERT_GE(f.answered, last.answered);
        ASSERT_GE(f.timed_out, last.timed_out);
        ASSERT_GE(f.fired, last.fired);
        last = f;
    }
}

TEST_P(LoadOn, EndsAtOnceInTheMiddle) {
    const std::ptrdiff_t threads = threads_of_the_process();
    const time_point begun = now();
    {
        const load calls(patient());
        wait_until(calls, [](const load_figures& f) { return f.on_their_way > 20; });
    }
    EXPECT_LT(now() - begun, patient().time_out) << "it waited for the calls on their way";
    EXPECT_TRUE(eventually([&] { return threads_of_the_process() == threads; }));
}

TEST_P(LoadOn, EndsBeforeItHasBegun) {
    const std::ptrdiff_t threads = threads_of_the_process();
    for (int i = 0; i < 10; ++i)
        const load calls(quick());
    EXPECT_TRUE(eventually([&] { return threads_of_the_process() == threads; }));
}

TEST_P(LoadOn, AFinishMayBeGivenUp) {
    load calls(patient());
    // More than those that will be answered in the end: 1 in 200 is lost.
    wait_until(calls, [](const load_figures& f) { return f.calls > 1000; });
    EXPECT_FALSE(calls.finish_until(now()));
    EXPECT_FALSE(calls.finish_until(now() + 5ms));
    EXPECT_NE(what_is_wrong(calls.figures()), "");
}

TEST_P(LoadOn, FollowsANewRate) {
    load_options options = quick();
    options.rate = 1;
    load calls(options);
    EXPECT_EQ(calls.options().rate, 1);
    calls.set_rate(5'000);
    EXPECT_EQ(calls.options().rate, 5'000);
    wait_until(calls, [](const load_figures& f) { return f.calls > 500; });
}

TEST_P(LoadOn, FollowsANewTimeOut) {
    load calls(patient());
    wait_until(calls, [](const load_figures& f) { return f.calls > 200; });
    EXPECT_EQ(calls.figures().timed_out, 0U);
    calls.set_time_out(1ms);
    wait_until(calls, [](const load_figures& f) { return f.timed_out > 100; });
}

TEST_P(LoadOn, GoesOnWithAnotherEngine) {
    load calls(quick());
    load_figures last;
    for (const engine_kind next :
         {engine_kind::fiber, engine_kind::loop, engine_kind::thread, engine_kind::fiber}) {
        const std::uint64_t enough = last.answered + 200;
        last = wait_until(calls, [&](const load_figures& f) { return f.answered > enough; });
        calls.set_engine(next);
        EXPECT_EQ(calls.options().engine, next);
        EXPECT_GE(calls.figures().calls, last.calls);
    }
    calls.finish();
    EXPECT_EQ(what_is_wrong(calls.figures()), "");
    EXPECT_GT(calls.figures().answered, last.answered);
}

TEST_P(LoadOn, AnEngineThatIsLeftKeepsItsCalls) {
    load calls(patient());
    const load_figures before =
        wait_until(calls, [](const load_figures& f) { return f.calls > 1000; });
    calls.set_rate(1);
    calls.set_engine(GetParam() == engine_kind::loop ? engine_kind::thread : engine_kind::loop);
    // All but the lost are answered on it.
    wait_until(calls, [](const load_figures& f) { return f.on_their_way < f.calls / 50; });
    EXPECT_GT(calls.figures().on_their_way, 0U);
    EXPECT_GE(calls.figures().calls, before.calls);
}

TEST_P(LoadOn, ManyMayLookAndChange) {
    load calls(quick());
    std::atomic<bool> over{false};
    {
        std::jthread looks([&] {
            while (!over)
                static_cast<void>(calls.figures());
        });
        std::jthread changes([&] {
            for (int i = 0; i < 6; ++i) {
                calls.set_engine(i % 2 == 0 ? engine_kind::loop : engine_kind::fiber);
                calls.set_rate(10'000 + i);
                calls.set_time_out(std::chrono::milliseconds(2 + i));
            }
            over = true;
        });
    }
    calls.finish();
    EXPECT_EQ(what_is_wrong(calls.figures()), "");
}

TEST(Load, RefusesWhatIsOutOfRange) {
    EXPECT_THROW(load({.rate = 0.5}), std::invalid_argument);
    EXPECT_THROW(load({.rate = 1e8}), std::invalid_argument);
    EXPECT_THROW(load({.rate = std::numeric_limits<double>::quiet_NaN()}), std::invalid_argument);
    EXPECT_THROW(load({.time_out = 999us}), std::invalid_argument);
    EXPECT_THROW(load({.time_out = 61s}), std::invalid_argument);
    EXPECT_THROW(load({.workers = 257}), std::invalid_argument);
    load calls({.rate = 1, .workers = 1});
    EXPECT_THROW(calls.set_rate(0), std::invalid_argument);
    EXPECT_THROW(calls.set_time_out(0s), std::invalid_argument);
    EXPECT_EQ(calls.options().rate, 1);
    EXPECT_EQ(calls.options().time_out, verge::duration(200ms));
}

TEST(Load, HasAWorkerAProcessorUnlessToldOtherwise) {
    EXPECT_EQ(load({.rate = 1}).options().workers, std::thread::hardware_concurrency());
}

TEST(Load, KnowsItsEnginesByName) {
    for (const engine_kind kind : {engine_kind::thread, engine_kind::fiber, engine_kind::loop})
        EXPECT_EQ(engine_named(name_of(kind)), kind);
    EXPECT_EQ(engine_named("steam"), std::nullopt);
    EXPECT_EQ(engine_named(""), std::nullopt);
}

// What a load has when all is well.
load_figures right() {
    load_figures f;
    f.calls = 100;
    f.answered = 90;
    f.timed_out = 10;
    f.retried = 7;
    f.given_up = 3;
    f.fired = 107;
    f.cancelled = 90;
    verge::histogram late;
    late.record(1, 10);
    f.lateness = late.snapshot();
    return f;
}

TEST(WhatIsWrong, IsNothingIfNothingIs) {
    EXPECT_EQ(what_is_wrong(right()), "");
    EXPECT_EQ(what_is_wrong(load_figures{}), "");
}

TEST(WhatIsWrong, NamesEachWrongFigure) {
    const auto wrong = [](auto change) {
        load_figures f = right();
        change(f);
        return what_is_wrong(f);
    };
    EXPECT_EQ(wrong([](load_figures& f) { f.answered = 89; }),
              "calls are not answered + timed out");
    EXPECT_EQ(wrong([](load_figures& f) { f.given_up = 2; }),
              "time-outs are not retried + given up");
    EXPECT_EQ(wrong([](load_figures& f) { f.on_their_way = 1; }), "calls are still on their way");
    EXPECT_EQ(wrong([](load_figures& f) { f.early = 1; }), "time-outs fired early");
    EXPECT_EQ(wrong([](load_figures& f) { f.lateness = {}; }),
              "the lateness of a time-out is missing");
    EXPECT_EQ(wrong([](load_figures& f) { f.fired = 106; }), "timers did not fire");
    EXPECT_EQ(wrong([](load_figures& f) { f.cancelled = 101; }),
              "more timers were cancelled than there were calls");
    EXPECT_EQ(wrong([](load_figures& f) { f.pending = 1; }), "timers are still pending");
    EXPECT_EQ(wrong([](load_figures& f) { f.early = f.pending = 1; }),
              "time-outs fired early; timers are still pending");
}

TEST(Sampler, ShowsWhatHappenedSinceTheSampleBefore) {
    load calls({.rate = 20'000, .time_out = 4ms, .workers = 1});
    sampler samples(calls);
    const load_figures some =
        wait_until(calls, [](const load_figures& f) { return f.timed_out > 100; });
    const sample first = samples.take();
    EXPECT_GE(first.figures.calls, some.calls);
    EXPECT_GT(first.calls_per_second, 0);
    EXPECT_GT(first.seconds, 0);
    EXPECT_GT(first.resident_bytes, 100'000U);
    EXPECT_GE(first.processors, 0);
    EXPECT_GT(first.late_p50_us, 0);
    EXPECT_LE(first.late_p50_us, first.late_p99_us);
    EXPECT_LE(first.late_p99_us, first.late_p999_us);
    EXPECT_LE(first.late_p999_us, first.late_max_us);
    calls.finish();
    static_cast<void>(samples.take());
    const sample quiet = samples.take();
    EXPECT_EQ(quiet.calls_per_second, 0);
    EXPECT_EQ(quiet.late_max_us, 0);
    EXPECT_GT(quiet.seconds, first.seconds);
}

}  // namespace
