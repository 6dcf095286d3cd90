// bench/rpc_cross/rpc_cross.hpp -- the one script of `rpc-cross` that every service plays.
//
// T threads form a ring, a queue between each and the next.  A thread takes a batch of 32
// timers that its neighbour scheduled, cancels them, schedules 32 new ones for now + 1 s, and
// passes them on: every cancel comes from another thread than its schedule.  About 1000 timers are
// live per thread. One operation is one cancel and one schedule.  The peer `queue-only` does all
// but the timers.
//
// The checksum verifies that no timer was lost, as in `rpc`.

#pragma once

#include "framework/workload.hpp"
#include "rpc_cross/batch_queue.hpp"
#include "services/service.hpp"
#include "services/thread_run.hpp"
#include "services/timer_account.hpp"

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace bench {

template <class Service>
class cross_thread {
public:
    static constexpr std::size_t batch_size = 32;
    static constexpr std::size_t batches_per_thread = 31;  // 992 timers

    struct batch {
        std::array<typename Service::template slot<timer_account::count_fired>, batch_size> slots;
    };
    using queue = batch_queue<batch>;

    cross_thread(Service& service, queue& in, queue& out, timer_account& account)
        : service_(service), in_(in), out_(out), account_(account) {}

    void fill(batch* batches) {
        for (std::size_t i = 0; i < batches_per_thread; ++i) {
            for (auto& slot : batches[i].slots) {
                service_.prepare(slot, account_.on_fire());
            }
            schedule(batches[i]);
            out_.push(&batches[i]);
        }
    }

    /// Operations done: a batch of them, or none if the neighbour has not delivered.
    std::size_t operations() {
        batch* received = in_.pop();
        if (received == nullptr) {
            std::this_thread::yield();  // there may be more threads than cores
            return 0;
        }
        cancel(*received);
        schedule(*received);
        out_.push(received);
        return batch_size;
    }

    /// After all threads have ended.
    void drain() {
        while (batch* received = in_.pop()) {
            cancel(*received);
        }
        account_.add(scheduled_, cancelled_);
    }

private:
    static constexpr std::int64_t delay = 1'000'000'000;

    void schedule(batch& b) {
        for (auto& slot : b.slots) {
            service_.schedule_after(slot, delay);
        }
        scheduled_ += batch_size;
    }

    void cancel(batch& b) {
        for (auto& slot : b.slots) {
            if (service_.cancel(slot)) ++cancelled_;
        }
    }

    Service& service_;
    queue& in_;
    queue& out_;
    timer_account& account_;
    std::uint64_t scheduled_ = 0;
    std::uint64_t cancelled_ = 0;
};

template <class Service>
[[nodiscard]] outcome run_rpc_cross(const job& asked) {
    using thread = cross_thread<Service>;
    const std::size_t threads = asked.params.integer("threads");
    const std::size_t all_batches = threads * thread::batches_per_thread;

    timer_account account;  // outlives the service, whose callbacks count in it
    Service service;
    const auto batches = std::make_unique<typename thread::batch[]>(all_batches);
    std::vector<typename thread::queue> queues;  // queues[i] leads to thread i
    for (std::size_t i = 0; i < threads; ++i) {
        queues.emplace_back(all_batches);
    }

    thread_run run(threads, asked.seconds, service.thread_id());
    run.execute([&](thread_run::worker& worker) {
        const std::size_t i = worker.index();
        thread self(service, queues[i], queues[(i + 1) % threads], account);
        self.fill(&batches[i * thread::batches_per_thread]);
        worker.begin();
        while (worker.goes_on()) {
            worker.count(self.operations());
        }
        worker.end();
        self.drain();
    });
    return {run.figures(), account.lost()};
}

}  // namespace bench
