// bench/expire/expire.hpp -- the one script of `expire` that every queue plays, in virtual time.
//
// n timers are armed with deadlines uniform over 10 s at 1 ms a tick; then time advances in steps
// of 1 ms until all have fired.  This is done several times, with advancing time, and a first time
// unmeasured so that all peers have their memory.  The checksum is over all deadlines in the
// order in which they fired, and over the step at which they did.

#pragma once

#include "framework/workload.hpp"
#include "queues/queue.hpp"
#include "support/clock.hpp"
#include "support/random.hpp"

#include <algorithm>

namespace bench {

template <virtual_queue Queue>
class expire_script {
public:
    explicit expire_script(std::uint64_t n) : n_(n), queue_(n) {}

    void round() {
        random_sequence random = random_;  // in a register
        const tick begin = now_;
        const std::int64_t start = thread_cpu_ns();
        for (std::size_t i = 0; i < n_; ++i) {
            queue_.arm(i, begin + 1 + scale_to(low_half(random()), span));
        }
        random_ = random;
        const std::int64_t armed = thread_cpu_ns();
        for (const tick end = now_ + span; now_ != end;) {
            queue_.advance(++now_, [this](tick deadline) { fired_.add(deadline ^ (now_ << 32)); });
        }
        insert_ns_ += static_cast<double>(armed - start);
        expire_ns_ += static_cast<double>(thread_cpu_ns() - armed);
        fired_.add(queue_.size());
    }

    void forget_times() { insert_ns_ = expire_ns_ = 0; }

    [[nodiscard]] outcome result(std::uint64_t rounds) const {
        const auto timers = static_cast<double>(rounds * n_);
        return {{{"insert_ns", insert_ns_ / timers}, {"expire_ns", expire_ns_ / timers}},
                fired_.value()};
    }

private:
    static constexpr tick span = 10'000;

    std::uint64_t n_;
    Queue queue_;
    random_sequence random_;
    running_hash fired_;
    tick now_ = 0;
    double insert_ns_ = 0;
    double expire_ns_ = 0;
};

template <virtual_queue Queue>
[[nodiscard]] outcome run_expire(const job& asked) {
    const std::uint64_t n = asked.params.integer("n");
    const double timers = 2e6 * asked.seconds;
    const auto rounds = static_cast<std::uint64_t>(timers / static_cast<double>(n)) + 1;
    expire_script<Queue> script(n);
    script.round();
    script.forget_times();
    for (std::uint64_t i = 0; i < rounds; ++i) {
        script.round();
    }
    return script.result(rounds);
}

}  // namespace bench
