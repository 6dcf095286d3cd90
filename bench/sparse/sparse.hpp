// bench/sparse/sparse.hpp -- the one script of `sparse` that every queue plays, in virtual time.
//
// 100 timers are spread over 24 h at 1 ms per tick.  Measured are the cost of one advance over the
// whole day, the cost of a query of the next deadline, and the number of wake-ups of a driver that
// sleeps until then and fires each timer at its tick.  (A wheel with a bound that is too early
// wakes more often than it fires.)

#pragma once

#include "framework/workload.hpp"
#include "queues/queue.hpp"
#include "support/clock.hpp"
#include "support/keep.hpp"
#include "support/random.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace bench {

template <virtual_queue Queue>
class sparse_script {
public:
    /// Nanoseconds of one advance over the day, everything included that it fires.
    double advance_ns() {
        arm_all();
        const stopwatch watch;
        queue_.advance(now_ + day, [this](tick deadline) { fired_.add(deadline); });
        const double ns = watch.ns();
        now_ += day;
        fired_.add(queue_.size());
        return ns;
    }

    /// Nanoseconds of one question for the next deadline, over many of them.
    double next_ns(std::uint64_t times) {
        arm_all();
        tick sum = 0;
        const stopwatch watch;
        for (std::uint64_t i = 0; i < times; ++i) {
            clobber_memory();
            sum += *queue_.next();
        }
        keep(sum);
        const double ns = watch.ns();
        fired_.add(sum / times - now_);
        queue_.advance(now_ += day, [](tick) {});
        return ns / static_cast<double>(times);
    }

    /// How often a driver wakes that sleeps to the next deadline.
    double wakeups() {
        arm_all();
        std::uint64_t count = 0;
        tick now = now_;
        while (const auto next = queue_.next()) {
            if (*next <= now) throw std::runtime_error("the next deadline is not ahead");
            now = *next;
            ++count;
            queue_.advance(now, [&](tick deadline) {
                if (deadline != now) throw std::runtime_error("fired at another tick than its own");
                fired_.add(deadline);
            });
        }
        now_ += day;
        return static_cast<double>(count);
    }

    [[nodiscard]] std::uint64_t checksum() const { return fired_.value(); }

private:
    static constexpr tick day = 86'400'000;
    static constexpr std::size_t timers = 100;

    void arm_all() {
        for (std::size_t i = 0; i < timers; ++i) {
            queue_.arm(i, now_ + 1 + scale_to(low_half(random_()), day));
        }
    }

    Queue queue_{timers};
    random_sequence random_;
    running_hash fired_;
    tick now_ = 0;
};

template <virtual_queue Queue>
[[nodiscard]] outcome run_sparse(const job& asked) {
    sparse_script<Queue> script;
    const auto days = static_cast<std::size_t>(20'000 * asked.seconds) + 1;
    const auto questions = static_cast<std::uint64_t>(20e6 * asked.seconds) + 1;
    outcome result;
    script.advance_ns();  // unmeasured: caches and memory are warm for all alike
    // The median: each is so short that an interruption would spoil a mean.
    std::vector<double> advances(days);
    for (double& ns : advances) {
        ns = script.advance_ns();
    }
    const auto middle = std::next(advances.begin(), std::ssize(advances) / 2);
    std::nth_element(advances.begin(), middle, advances.end());
    result.figures["advance_us"] = *middle / 1000;
    result.figures["next_ns"] = script.next_ns(questions);
    result.figures["wakeups"] = script.wakeups();
    result.checksum = script.checksum();
    return result;
}

}  // namespace bench
