// unit/queue/timer_queue_fixture.hpp -- both queues under one set of tests.
//
// A timer has a name, and fired_by() advances a queue and lists the names of what fired.

#pragma once

#include "support/wheel_seams.hpp"
#include <verge/queue/timer_heap.hpp>
#include <verge/queue/timer_queue.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace verge {

template <class Base>
struct named : Base {
    named() = default;
    explicit named(int number) : name(number) {}
    int name = 0;
};

using named_wheel = timing_wheel<named<wheel_timer>>;
using named_heap = timer_heap<named<heap_timer<>>>;

static_assert(timer_queue<named_wheel>);
static_assert(timer_queue<named_heap>);

template <class Queue>
class TimerQueue : public testing::Test {};

using both_queues = testing::Types<named_wheel, named_heap>;

struct queue_names {
    template <class Queue>
    static const char* GetName(int) {
        return std::is_same_v<Queue, named_wheel> ? "timing_wheel" : "timer_heap";
    }
};

using names = std::vector<int>;

// Timers named 0, 1, 2...  They cannot move, and a deque does not ask them to.
template <class Queue>
std::deque<typename Queue::timer_type> make_timers(int count) {
    std::deque<typename Queue::timer_type> timers;
    for (int name = 0; name < count; ++name)
        timers.emplace_back(name);
    return timers;
}

// Advances, does `then` in each callback, and returns who fired, in order.
template <class Queue, class Then>
names fired_by(Queue& queue, tick now, std::size_t budget, Then&& then) {
    names fired;
    const std::size_t count = queue.advance(
        now,
        [&](typename Queue::timer_type& timer) {
            EXPECT_FALSE(timer.armed()) << "a timer is disarmed before its call";
            EXPECT_LE(timer.deadline(), queue.now());
            fired.push_back(timer.name);
            then(timer);
        },
        budget);
    EXPECT_EQ(count, fired.size());
    EXPECT_EQ(queue.check(), nullptr);
    return fired;
}

template <class Queue>
names fired_by(Queue& queue, tick now, std::size_t budget = no_budget) {
    return fired_by(queue, now, budget, [](auto&) {});
}

// A day of ticks.
inline constexpr tick day_of_ms = tick{24} * 3600 * 1000;
inline constexpr tick day_of_ns = day_of_ms * 1000 * 1000;

// Times at which a wheel may have arrived: on, before and after its seams, and near both ends.
inline constexpr std::array<tick, 12> interesting_times = {
    0,
    1,
    62,
    63,
    64,
    4095,
    slot_span(5) + slot_span(2) + 17,
    1'700'000'000'000'000'000,  // 2023 in nanoseconds
    slot_span(14) - 1,
    (tick{1} << 63) - 1,
    never_tick - 5000,
    never_tick - 2,
};

// Deadlines of every size after `now`, many of them equal.  The same for each run.
inline std::vector<tick> scattered_deadlines(tick now, int count, unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<tick> deadlines;
    for (int i = 0; i < count; ++i) {
        if (i > 0 && random() % 3 == 0) {
            deadlines.push_back(deadlines[random() % deadlines.size()]);
        } else {
            const tick far = tick_after(now, 1 + (random() >> (random() % 64)));
            deadlines.push_back(far == never_tick ? far - 1 : far);
        }
    }
    return deadlines;
}

// Arms scattered deadlines, and returns the names in the order in which they are to fire.
template <class Queue, class Timers>
names arm_scattered(Queue& queue, Timers& timers, unsigned seed) {
    const auto deadlines = scattered_deadlines(queue.now(), static_cast<int>(timers.size()), seed);
    for (std::size_t i = 0; i < timers.size(); ++i)
        queue.arm_at(timers[i], deadlines[i]);
    names order(timers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return deadlines[static_cast<std::size_t>(a)] < deadlines[static_cast<std::size_t>(b)];
    });
    return order;
}

}  // namespace verge
