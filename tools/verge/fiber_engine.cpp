// tools/verge/fiber_engine.cpp -- calls made by fibers, one fiber per call.
//
// A fiber a call, on a scheduler with workers and timers of its own: it sends, waits for the answer
// until the time-out, and sleeps before it sends again, all as plain code.
//
// The answer comes from a timer, which sets the call's event.  The event is on the fiber's stack,
// so a fiber that waits no longer takes the timer back first.

#include "timed_engine.hpp"
#include <verge/driver/scoped_timer.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/sync/event.hpp>

#include <algorithm>

namespace verge::tool {

namespace {

using verge::wait_result;

class fiber_engine final : public timed_engine {
public:
    fiber_engine(const live_settings& settings, unsigned workers, std::uint64_t seed)
        : timed_engine(settings, workers, 0, seed),
          scheduler_({.name = "fibers",
                      .min_workers = workers,
                      .max_workers = workers,
                      .timers = &timers_}) {
        for (unsigned i = 0; i < workers; ++i)
            clients_.push_back(scheduler_.spawn([this] { make_calls(); }));
    }
    ~fiber_engine() override {
        clients_.clear();  // each is stopped and joined: no more spawns
        scheduler_.stop();
    }
    fiber_engine(const fiber_engine&) = delete;
    fiber_engine& operator=(const fiber_engine&) = delete;

private:
    // A fiber that spawns the calls' fibers at a steady rate.
    void make_calls() {
        struct ended {
            fiber_engine& engine;
            explicit ended(fiber_engine& of) noexcept : engine(of) {}
            ended(const ended&) = delete;
            ended& operator=(const ended&) = delete;
            ~ended() { engine.sender_ended(); }
        } const at_the_end(*this);
        time_point next = now();
        pacer pace(next);
        while (sending() && !this_fiber::stop_requested()) {
            const double rate = settings_.calls_per_second() / workers_;
            const duration time_out = settings_.time_out_now();
            const std::uint64_t due = std::min(pace.due(now(), rate), tally_.room(time_out));
            for (std::uint64_t i = 0; i < due && !this_fiber::stop_requested(); ++i) {
                tally_.worker().begun.add();
                scheduler_.spawn(fibers::batched, [this, time_out] { call(time_out); }).detach();
            }
            next = std::max(next + pacer::step(rate), now());
            this_fiber::sleep_until(next);  // a stop ends it here
        }
    }

    // A fiber: one call, with all its attempts.
    void call(duration time_out) {
        for (int attempt = 1;; ++attempt) {
            const time_point deadline = deadline_after(now(), time_out);
            const wait_result end = ask(deadline, attempt);
            client_counts& counts = tally_.worker();
            if (end == wait_result::notified) {
                counts.answered.add();
                return;
            }
            counts.count_time_out(deadline);
            if (attempt == load_options::most_attempts) {
                counts.given_up.add();
                return;
            }
            this_fiber::sleep_for(pause_after(attempt));
            tally_.worker().retried.add();
            time_out = settings_.time_out_now();
        }
    }

    // Sends once, and waits for the answer.
    wait_result ask(time_point deadline, int attempt) {
        verge::event answered;
        scoped_timer server;  // ends before the event does, also if a stop unwinds the wait
        if (const fate drawn = tally_.worker().fates.next(attempt); !drawn.lost) {
            const time_point answer = now() + drawn.latency;
            server =
                scoped_timer(timers_, timers_.schedule_between(answer, answer + answer_slack,
                                                               [&answered] { answered.set(); }));
        }
        const wait_result end = answered.wait_until(deadline);
        if (end == wait_result::notified) server.release();  // set() was its last access
        return end;
    }

    fibers::scheduler scheduler_;
    std::vector<fibers::fiber<>> clients_;
};

}  // namespace

std::unique_ptr<engine> make_fiber_engine(const live_settings& settings, unsigned workers,
                                          std::uint64_t seed) {
    return std::make_unique<fiber_engine>(settings, workers, seed);
}

}  // namespace verge::tool
