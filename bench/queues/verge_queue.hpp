// bench/queues/verge_queue.hpp -- Verge's own queues in the form the workloads ask for.
//
// The timers are the bare intrusive nodes, nothing derived from them: what is measured is ours.

#pragma once

#include "queues/queue.hpp"
#include <verge/queue/timer_heap.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <memory>

namespace bench {

template <class Queue, class Timer>
class verge_queue {
public:
    explicit verge_queue(std::size_t n) : timers_(std::make_unique<Timer[]>(n)), count_(n) {
        if constexpr (requires { queue_.reserve(n); }) queue_.reserve(n);
    }

    void arm(std::size_t index, tick deadline) { queue_.arm_at(timers_[index], deadline); }

    void cancel(std::size_t index) { queue_.cancel(timers_[index]); }

    template <class F>
    void advance(tick now, F&& fired) {
        queue_.advance(now, [&](Timer& timer) { fired(timer.deadline()); });
    }

    [[nodiscard]] std::optional<tick> next() const { return queue_.next_bound(); }

    [[nodiscard]] std::size_t size() const { return queue_.size(); }

    [[nodiscard]] tick sum_of_deadlines() const {
        tick sum = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            if (timers_[i].armed()) sum += timers_[i].deadline();
        }
        return sum;
    }

private:
    // Declared before the queue: a queue lets go of its timers when it is destroyed.
    std::unique_ptr<Timer[]> timers_;
    std::size_t count_;
    Queue queue_;
};

using verge_wheel = verge_queue<verge::timing_wheel<>, verge::wheel_timer>;
using verge_heap = verge_queue<verge::timer_heap<>, verge::heap_timer<>>;

static_assert(virtual_queue<verge_wheel> && virtual_queue<verge_heap>);

}  // namespace bench
