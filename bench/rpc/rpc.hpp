// bench/rpc/rpc.hpp -- the one script of `rpc` that every service plays.
//
// Each of T threads has a ring of `window` live timers.  One operation cancels the oldest and
// schedules a new one, for now + 1 s, as a client does whose calls are answered in time.  With
// order `descending` every deadline is earlier than the last, so that each is the nearest: the
// worst case for a service that has to wake its thread then.
//
// A run lasts for a time, so the number of operations differs.  The checksum therefore verifies
// that no timer was lost: each that was scheduled was cancelled or fired.

#pragma once

#include "framework/workload.hpp"
#include "services/service.hpp"
#include "services/thread_run.hpp"
#include "services/timer_account.hpp"

#include <algorithm>
#include <memory>

namespace bench {

/// The delay of each next timer.
class delay_sequence {
public:
    explicit delay_sequence(bool descending)
        : delay_(descending ? hours_24 : second), step_(descending ? step : 0) {}

    std::int64_t next() {
        delay_ = std::max(second, delay_ - step_);
        return delay_;
    }

private:
    static constexpr std::int64_t second = 1'000'000'000;
    static constexpr std::int64_t hours_24 = 86'400 * second;
    // More than an operation lasts: else time goes faster forward than deadlines go back.
    static constexpr std::int64_t step = 20'000;

    std::int64_t delay_;
    std::int64_t step_;
};

template <class Service>
class rpc_thread {
public:
    rpc_thread(Service& service, const job& asked, timer_account& account)
        : service_(service),
          account_(account),
          delays_(asked.params.word("order") == "descending"),
          window_(asked.params.integer("window")),
          ring_(std::make_unique<slot[]>(window_)) {
        for (std::size_t i = 0; i < window_; ++i) {
            service_.prepare(ring_[i], account.on_fire());
        }
    }

    void fill() {
        for (std::size_t i = 0; i < window_; ++i) {
            schedule(ring_[i]);
        }
    }

    /// One operation, on the oldest timer.
    void operation() {
        slot& oldest = ring_[next_];
        if (++next_ == window_) next_ = 0;
        if (service_.cancel(oldest)) ++cancelled_;
        schedule(oldest);
    }

    void drain() {
        for (std::size_t i = 0; i < window_; ++i) {
            if (service_.cancel(ring_[i])) ++cancelled_;
        }
        account_.add(scheduled_, cancelled_);
    }

private:
    using slot = typename Service::template slot<timer_account::count_fired>;

    void schedule(slot& s) {
        service_.schedule_after(s, delays_.next());
        ++scheduled_;
    }

    Service& service_;
    timer_account& account_;
    delay_sequence delays_;
    std::size_t window_;
    std::unique_ptr<slot[]> ring_;
    std::size_t next_ = 0;
    std::uint64_t scheduled_ = 0;
    std::uint64_t cancelled_ = 0;
};

/// On a service that the account outlives: its callbacks count there.
template <class Service>
[[nodiscard]] outcome run_rpc_on(Service& service, timer_account& account, const job& asked) {
    thread_run run(asked.params.integer("threads"), asked.seconds, service.thread_id());
    run.execute([&](thread_run::worker& self) {
        rpc_thread<Service> thread(service, asked, account);
        thread.fill();
        self.begin();
        while (self.goes_on()) {
            for (int i = 0; i < 64; ++i) {
                thread.operation();
            }
            self.count(64);
        }
        self.end();
        thread.drain();
    });
    return {run.figures(), account.lost()};
}

template <class Service>
[[nodiscard]] outcome run_rpc(const job& asked) {
    timer_account account;
    Service service;
    return run_rpc_on(service, account, asked);
}

}  // namespace bench
