// bench/loop_timer/loop_timer.hpp -- the two scripts of `loop-timer`.
//
// A ring of `window` timers of one loop, all pending, for 10 s from when they were armed.  One
// operation cancels the oldest and arms it again.  With threads 0 a function inside the loop does
// it, 64 at a time, and gets back to the loop in between: what cancelling leaves to be done there
// counts.  Else T threads do it from outside, on timers of their own, of one running loop.
//
// ns_per_op is CPU time inside, where nothing waits, and wall time outside.  bytes_per_timer is
// what malloc gave out for the ring, timers and all, divided by their number, when all are pending;
// the handlers are 8 bytes.  The checksum verifies that each timer had one end.

#pragma once

#include "framework/workload.hpp"
#include "services/service.hpp"
#include "services/thread_run.hpp"
#include "services/timer_account.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"

#include <cstdint>
#include <memory>

namespace bench {

template <class Loop>
class timer_ring {
public:
    timer_ring(Loop& loop, std::size_t window, timer_account& account)
        : loop_(loop), account_(account), window_(window), ring_(std::make_unique<slot[]>(window)) {
        for (std::size_t i = 0; i < window_; ++i) {
            loop_.prepare(ring_[i], account.on_fire());
        }
    }

    void fill() {
        for (std::size_t i = 0; i < window_; ++i) {
            arm(ring_[i]);
        }
    }

    void operation() {
        slot& oldest = ring_[next_];
        if (++next_ == window_) next_ = 0;
        if (loop_.cancel(oldest)) ++cancelled_;
        arm(oldest);
    }

    void drain() {
        for (std::size_t i = 0; i < window_; ++i) {
            if (loop_.cancel(ring_[i])) ++cancelled_;
        }
        account_.add(armed_, cancelled_);
    }

private:
    using slot = typename Loop::template slot<timer_account::count_fired>;
    static constexpr std::int64_t ten_seconds = 10'000'000'000;

    void arm(slot& s) {
        loop_.schedule_after(s, ten_seconds);
        ++armed_;
    }

    Loop& loop_;
    timer_account& account_;
    std::size_t window_;
    std::unique_ptr<slot[]> ring_;
    std::size_t next_ = 0;
    std::uint64_t armed_ = 0;
    std::uint64_t cancelled_ = 0;
};

/// `Loop` is not running; run_in_loop(step) runs it, and calls step() inside until that is false.
template <class Loop>
[[nodiscard]] outcome run_inside_loop(const job& asked) {
    const std::size_t window = asked.params.integer("window");
    timer_account account;
    release_free_memory();
    Loop loop;
    const heap_meter meter;
    timer_ring<Loop> ring(loop, window, account);
    outcome result;
    std::int64_t start = 0;
    std::int64_t stop_at = 0;
    std::uint64_t operations = 0;
    loop.run_in_loop([&] {
        if (operations == 0) {
            ring.fill();
            result.figures["bytes_per_timer"] = meter.bytes_per(window);
            stop_at = now_ns() + static_cast<std::int64_t>(asked.seconds * 1e9);
            start = thread_cpu_ns();
        }
        for (int i = 0; i < 64; ++i) {
            ring.operation();
        }
        operations += 64;
        if (operations % 4096 != 0 || now_ns() < stop_at) return true;
        const auto ns = static_cast<double>(thread_cpu_ns() - start);
        result.figures["ns_per_op"] = ns / static_cast<double>(operations);
        ring.drain();
        return false;
    });
    result.checksum = account.lost();
    return result;
}

/// `Service` is running in a thread of its own.
template <class Service>
[[nodiscard]] outcome run_outside_loop(const job& asked) {
    const std::size_t window = asked.params.integer("window");
    const std::size_t threads = asked.params.integer("threads");
    timer_account account;
    Service service;
    thread_run run(threads, asked.seconds, service.thread_id());
    const heap_meter meter;
    double bytes = 0;  // by the first thread
    run.execute([&](thread_run::worker& self) {
        timer_ring<Service> ring(service, window, account);
        ring.fill();
        if (self.index() == 0) bytes = meter.bytes_per(window * threads);
        self.begin();
        while (self.goes_on()) {
            for (int i = 0; i < 64; ++i) {
                ring.operation();
            }
            self.count(64);
        }
        self.end();
        ring.drain();
    });
    return {{{"ns_per_op", run.figures().at("ns_per_op")}, {"bytes_per_timer", bytes}},
            account.lost()};
}

template <class Loop, class Service>
[[nodiscard]] outcome run_loop_timer(const job& asked) {
    return asked.params.integer("threads") == 0 ? run_inside_loop<Loop>(asked)
                                                : run_outside_loop<Service>(asked);
}

[[nodiscard]] inline bool only_inside(const parameters& params) {
    return params.integer("threads") == 0;
}

}  // namespace bench
