// tools/verge/thread_engine.cpp -- calls made by threads, with a timer thread.
//
// Threads that make calls, and a timer thread: each time-out, each answer and each pause before a
// call is sent again is a callback on it.
//
// A call has no object.  Its time-out knows the attempt and the deadline, its answer
// knows the time-out's id; the result of cancel() decides which came first.

#include "timed_engine.hpp"
#include <verge/base/parker.hpp>

#include <algorithm>
#include <thread>

#include <pthread.h>

namespace verge::tool {

namespace {

class thread_engine final : public timed_engine {
public:
    thread_engine(const live_settings& settings, unsigned workers, std::uint64_t seed)
        : timed_engine(settings, workers, 1, seed), parkers_(workers) {
        try {
            for (unsigned i = 0; i < workers; ++i)
                threads_.emplace_back([this, i] { run(i); });
        } catch (...) {
            end();
            throw;
        }
    }
    ~thread_engine() override { end(); }
    thread_engine(const thread_engine&) = delete;
    thread_engine& operator=(const thread_engine&) = delete;

private:
    void end() noexcept {
        ending_.store(true, std::memory_order_relaxed);  // relaxed: unpark() publishes it
        for (parker& each : parkers_)
            each.unpark();
        for (std::thread& each : threads_)
            each.join();
        timers_.stop();  // before the counts go: the callbacks name them
    }

    [[nodiscard]] bool ending() const noexcept {
        return ending_.load(std::memory_order_relaxed);  // relaxed: read again
    }

    // A worker.
    void run(unsigned number) {
        ::pthread_setname_np(::pthread_self(), "caller");
        client_counts& counts = tally_.worker();
        make_calls(counts, number);
        sender_ended();
        while (!ending())  // keeps the thread: its processor time is read until the end
            static_cast<void>(parkers_[number].park(never));
    }

    void make_calls(client_counts& counts, unsigned number) {
        time_point next = now();
        pacer pace(next);
        while (sending() && !ending()) {
            const double rate = settings_.calls_per_second() / workers_;
            const duration time_out = settings_.time_out_now();
            const std::uint64_t due = std::min(pace.due(now(), rate), tally_.room(time_out));
            for (std::uint64_t i = 0; i < due && !ending(); ++i) {
                counts.begun.add();
                send(counts, time_out, 1);
            }
            next = std::max(next + pacer::step(rate), now());
            static_cast<void>(parkers_[number].park(next));
        }
    }

    // A worker, or the timer thread.
    void send(client_counts& counts, duration time_out, int attempt) {
        const time_point sent = now();
        const time_point deadline = deadline_after(sent, time_out);
        const timer_id id = timers_.schedule_at(
            deadline, [this, deadline, attempt] { on_time_out(deadline, attempt); });
        const fate drawn = counts.fates.next(attempt);
        if (drawn.lost) return;
        const time_point answer = sent + drawn.latency;
        timers_.schedule_between(answer, answer + answer_slack, [this, id] { on_answer(id); });
    }

    // The rest is on the timer thread.

    void on_answer(timer_id time_out) {
        // One that comes after the time-out is ignored.
        if (timers_.cancel(time_out) == cancel_result::cancelled) tally_.other().answered.add();
    }

    void on_time_out(time_point deadline, int attempt) {
        client_counts& counts = tally_.other();
        counts.count_time_out(deadline);
        if (attempt == load_options::most_attempts) {
            counts.given_up.add();
            return;
        }
        timers_.schedule_after(pause_after(attempt), [this, attempt] {
            client_counts& own = tally_.other();
            own.retried.add();
            send(own, settings_.time_out_now(), attempt + 1);
        });
    }

    std::vector<parker> parkers_;      // a worker each
    std::atomic<bool> ending_{false};  // written by end()
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<engine> make_thread_engine(const live_settings& settings, unsigned workers,
                                           std::uint64_t seed) {
    return std::make_unique<thread_engine>(settings, workers, seed);
}

}  // namespace verge::tool
