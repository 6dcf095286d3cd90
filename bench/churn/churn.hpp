// bench/churn/churn.hpp -- the one script of `churn` that every peer plays.
//
// n timers are armed with deadlines uniform in 1 ms ... 1 h, at 1 ms a tick.  One operation cancels
// one of them, chosen at random, and arms it again.  The present is 0 for all peers:
// what is measured is arming and cancelling, and nothing fires.  Time is CPU time: nothing waits
// here.
//
// bytes_per_timer is what malloc gave out from before the peer was made until after the last
// operation, its headers included, divided by n: nodes, containers and garbage, and nothing of the
// user's, since the timers carry no data.

#pragma once

#include "framework/workload.hpp"
#include "queues/queue.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/random.hpp"

#include <algorithm>

namespace bench {

/// The same number for all peers, so that they end in the same state; in proportion to `seconds`,
/// so that a run of a quick peer lasts some tenths of a second.
[[nodiscard]] inline std::uint64_t churn_operations(std::uint64_t n, double seconds) {
    const double a_second = n <= 10'000 ? 20e6 : n <= 200'000 ? 10e6 : n <= 2'000'000 ? 4e6 : 2e6;
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(a_second * seconds));
}

/// Too long to wait for: peers that follow pointers, or allocate, take minutes for a run of 1e7.
[[nodiscard]] inline bool up_to_a_few_million(const parameters& params) {
    return params.integer("n") <= 3'000'000;
}

/// The script, divided into steps, since some peers must return to their loop periodically.
template <class Peer>
class churn_script {
public:
    churn_script(Peer& peer, std::uint64_t n, std::uint64_t operations, const heap_meter& meter)
        : peer_(peer), n_(n), operations_(operations), left_(operations), meter_(meter) {}

    /// False after the last step.
    bool step() {
        random_sequence random = random_;  // in a register
        if (left_ == operations_) {
            for (std::size_t i = 0; i < n_; ++i) {
                peer_.arm(i, delay(low_half(random())));
            }
            start_ = thread_cpu_ns();
        }
        const std::uint64_t count = std::min<std::uint64_t>(left_, 256);
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t bits = random();
            const std::size_t index = scale_to(high_half(bits), n_);
            peer_.cancel(index);
            peer_.arm(index, delay(low_half(bits)));
        }
        random_ = random;
        left_ -= count;
        if (left_ != 0) return true;
        finish();
        return false;
    }

    [[nodiscard]] const outcome& result() const { return result_; }

private:
    static tick delay(std::uint64_t bits32) { return 1 + scale_to(bits32, 3'600'000); }

    void finish() {
        const double ns = static_cast<double>(thread_cpu_ns() - start_);
        result_.figures["ns_per_op"] = ns / static_cast<double>(operations_);
        result_.figures["bytes_per_timer"] = meter_.bytes_per(n_);
        result_.checksum = peer_.sum_of_deadlines();  // as the peer itself holds them
    }

    Peer& peer_;
    std::uint64_t n_;
    std::uint64_t operations_;
    std::uint64_t left_;
    const heap_meter& meter_;
    random_sequence random_;
    std::int64_t start_ = 0;
    outcome result_;
};

/// Runs the script once on a new Peer.  A peer with a loop has `run_in_loop(step)`, which calls
/// step() from inside it until that is false.
template <class Peer>
[[nodiscard]] outcome run_churn(const job& asked) {
    const std::uint64_t n = asked.params.integer("n");
    const heap_meter meter;
    Peer peer(n);
    churn_script<Peer> script(peer, n, churn_operations(n, asked.seconds), meter);
    const auto step = [&] { return script.step(); };
    if constexpr (requires { peer.run_in_loop(step); }) {
        peer.run_in_loop(step);
    } else {
        while (step()) {
        }
    }
    return script.result();
}

}  // namespace bench
