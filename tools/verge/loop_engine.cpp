// tools/verge/loop_engine.cpp -- calls on an io_context that several threads run.
//
// Each time-out, each answer and each pause is a wait of a steady_timer.  A call is an object with
// two timers, which is reused.  The handlers of both may run at the same time in two threads: the
// result of cancel() decides which of the two came first, and the handler that ends last returns
// the object. The loop has no statistics of its timers; the engine counts the results of the waits.

#include "engine.hpp"
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>
#include <verge/io/steady_timer.hpp>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>

#include <pthread.h>

namespace verge::tool {

namespace {

using loop_timer = steady_timer::rebind_executor<io_context::executor_type>::other;

struct loop_call {
    explicit loop_call(io_context& loop) : time_out(loop), answer(loop) {}

    loop_timer time_out;  // or the pause before the call is sent
    loop_timer answer;
    time_point deadline;
    int attempt = 0;
    std::atomic<int> waits{0};  // that have not ended; written by their handlers
};

// All calls that were ever made; those that are not in use wait for the next.
class call_pool {
public:
    explicit call_pool(io_context& loop) : loop_(loop) {}

    [[nodiscard]] loop_call& take() {
        const std::lock_guard hold(lock_);
        if (!free_.empty()) {
            loop_call& call = *free_.back();
            free_.pop_back();
            return call;
        }
        free_.reserve(all_.size() + 1);  // give() allocates nothing
        return *all_.emplace_back(std::make_unique<loop_call>(loop_));
    }
    void give(loop_call& call) noexcept {
        const std::lock_guard hold(lock_);
        free_.push_back(&call);
    }

private:
    io_context& loop_;
    std::mutex lock_;
    std::vector<std::unique_ptr<loop_call>> all_;
    std::vector<loop_call*> free_;
};

// What makes calls at a steady rate: one a worker, though any thread may run it.
struct loop_client {
    explicit loop_client(io_context& loop) : ticks(loop), next(now()), pace(next) {}

    loop_timer ticks;
    time_point next;
    pacer pace;
};

class loop_engine final : public engine {
public:
    loop_engine(const live_settings& settings, unsigned workers, std::uint64_t seed)
        : settings_(settings),
          workers_(workers),
          tally_(workers, 0, seed),
          senders_(workers),
          loop_(static_cast<int>(workers)),
          keep_running_(loop_.get_executor()),
          calls_(loop_) {
        for (unsigned i = 0; i < workers; ++i) {
            loop_client& client = *clients_.emplace_back(std::make_unique<loop_client>(loop_));
            post(loop_, [this, &client] { make_calls(client); });
        }
        try {
            for (unsigned i = 0; i < workers; ++i)
                threads_.emplace_back([this] { run(); });
        } catch (...) {
            end();
            throw;
        }
    }
    ~loop_engine() override { end(); }
    loop_engine(const loop_engine&) = delete;
    loop_engine& operator=(const loop_engine&) = delete;

    void stop_sending() noexcept override {
        sending_.store(false, std::memory_order_relaxed);  // relaxed: senders_ orders what counts
    }

    [[nodiscard]] bool done() const override {
        // acquire: pairs with the release in make_calls(), so that every call begun is counted.
        return senders_.load(std::memory_order_acquire) == 0 && tally_.open() == 0 &&
               pending() == 0;
    }

    void add_to(load_figures& sum) const override {
        tally_.add_to(sum);
        sum.pending += pending();
        sum.fired += tally_.total(&client_counts::fired);
        sum.cancelled += tally_.total(&client_counts::cancelled);
    }

    [[nodiscard]] std::vector<double> worker_busy() override { return tally_.worker_busy(); }

private:
    void end() noexcept {
        loop_.stop();
        for (std::thread& each : threads_)
            each.join();
    }

    void run() {
        ::pthread_setname_np(::pthread_self(), "loop");
        static_cast<void>(tally_.worker());  // for its processor time
        loop_.run();
    }

    [[nodiscard]] std::uint64_t pending() const noexcept {
        // Ends first, as in tally::open().
        const std::uint64_t ended =
            tally_.total(&client_counts::fired) + tally_.total(&client_counts::cancelled);
        return tally_.total(&client_counts::armed) - ended;
    }

    void make_calls(loop_client& client) {
        // relaxed: read again.
        if (!sending_.load(std::memory_order_relaxed)) {
            // release: pairs with the acquire in done().
            senders_.fetch_sub(1, std::memory_order_release);
            return;
        }
        client_counts& counts = tally_.worker();
        const double rate = settings_.calls_per_second() / workers_;
        const duration time_out = settings_.time_out_now();
        const std::uint64_t due = std::min(client.pace.due(now(), rate), tally_.room(time_out));
        for (std::uint64_t i = 0; i < due && !loop_.stopped(); ++i) {
            counts.begun.add();
            send(counts, calls_.take(), time_out, 1);
        }
        client.next = std::max(client.next + pacer::step(rate), now());
        client.ticks.expires_at(client.next);
        client.ticks.async_wait([this, &client](std::error_code) { make_calls(client); });
    }

    void send(client_counts& counts, loop_call& call, duration time_out, int attempt) {
        const time_point sent = now();
        const fate drawn = counts.fates.next(attempt);
        call.deadline = deadline_after(sent, time_out);
        call.attempt = attempt;
        // relaxed: no handler runs before the waits below begin, which publish it.
        call.waits.store(drawn.lost ? 1 : 2, std::memory_order_relaxed);
        counts.armed.add();
        call.time_out.expires_at(call.deadline);
        call.time_out.async_wait(
            [this, &call](std::error_code error) { time_out_ended(call, error); });
        // A call that is lost may be over, and be another one, from here on.
        if (drawn.lost) return;
        counts.armed.add();
        call.answer.expires_at(sent + drawn.latency, answer_slack);
        call.answer.async_wait([this, &call](std::error_code) { on_answer(call); });
    }

    void on_answer(loop_call& call) {
        client_counts& counts = tally_.worker();
        counts.fired.add();
        // One that comes after the time-out is ignored.
        if (call.time_out.cancel() == 1) counts.answered.add();
        wait_ended(call);
    }

    void time_out_ended(loop_call& call, std::error_code error) {
        client_counts& counts = tally_.worker();
        if (error) {
            counts.cancelled.add();
            return wait_ended(call);
        }
        counts.count_time_out(call.deadline);
        if (call.attempt == load_options::most_attempts) {
            counts.given_up.add();
        } else {
            pause(counts, call.attempt);
        }
        counts.fired.add();  // after a pause is armed: something is pending all the time
        wait_ended(call);
    }

    // Another object: the answer of this one may still come.
    void pause(client_counts& counts, int attempt) {
        loop_call& again = calls_.take();
        counts.armed.add();
        again.time_out.expires_after(pause_after(attempt));
        again.time_out.async_wait([this, &again, attempt](std::error_code) {
            client_counts& own = tally_.worker();
            own.retried.add();
            send(own, again, settings_.time_out_now(), attempt + 1);
            own.fired.add();
        });
    }

    void wait_ended(loop_call& call) noexcept {
        // acq_rel: the handler that ends last sees all that the other did with the call.
        if (call.waits.fetch_sub(1, std::memory_order_acq_rel) == 1) calls_.give(call);
    }

    const live_settings& settings_;
    const unsigned workers_;
    tally tally_;
    std::atomic<bool> sending_{true};  // written by stop_sending()
    std::atomic<unsigned> senders_;    // clients that may begin calls; written by them
    // In this order: timers go before their loop.
    io_context loop_;
    executor_work_guard<io_context::executor_type> keep_running_;
    call_pool calls_;
    std::vector<std::unique_ptr<loop_client>> clients_;
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<engine> make_loop_engine(const live_settings& settings, unsigned workers,
                                         std::uint64_t seed) {
    return std::make_unique<loop_engine>(settings, workers, seed);
}

}  // namespace verge::tool
