// bench/services/libev_service.hpp -- libev: timers of one loop in a thread.
//
// Not thread-safe: timers are scheduled inside the loop.  libev counts from a time it has cached;
// that is brought up to date before each timer.

#pragma once

#include "services/call_inside.hpp"
#include "services/service.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include <ev.h>

namespace bench {

class libev_service {
public:
    libev_service() : loop_(ev_loop_new(EVFLAG_AUTO)) {
        if (loop_ == nullptr) throw std::runtime_error("ev_loop_new failed");
        const auto answer = [](struct ev_loop*, ev_async* wake, int) {
            static_cast<libev_service*>(wake->data)->inbox_.answer();
        };
        ev_async_init(&wake_, answer);
        wake_.data = this;
        ev_async_start(loop_, &wake_);
        thread_ = std::thread([this] { ev_run(loop_, 0); });
        run_inside([this] { thread_id_ = this_thread_id(); });
    }
    libev_service(const libev_service&) = delete;
    libev_service& operator=(const libev_service&) = delete;
    ~libev_service() {
        stop();
        ev_loop_destroy(loop_);
    }

    template <class F>
    struct slot {
        ev_timer object{};
        F f{};
    };

    template <class F>
    void run_inside(const F& f) {
        inbox_.call(f, [this] { ev_async_send(loop_, &wake_); });
    }

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.f = f;
        const auto fire = [](struct ev_loop*, ev_timer* timer, int) {
            static_cast<slot<F>*>(timer->data)->f();
        };
        ev_timer_init(&s.object, fire, 0., 0.);
        s.object.data = &s;
    }

    template <class F>
    void schedule_at(slot<F>& s, std::int64_t deadline) {
        ev_now_update(loop_);
        const std::int64_t delay = std::max<std::int64_t>(0, deadline - now_ns());
        ev_timer_set(&s.object, static_cast<double>(delay) * 1e-9, 0.);
        ev_timer_start(loop_, &s.object);
    }

    [[nodiscard]] int thread_id() const { return thread_id_; }

    /// Before the slots go: ends the loop, which then touches them no more.
    void stop() {
        if (!thread_.joinable()) return;
        run_inside([this] { ev_break(loop_, EVBREAK_ALL); });
        thread_.join();
    }

private:
    struct ev_loop* loop_;
    ev_async wake_{};
    call_inside inbox_;
    int thread_id_ = 0;
    std::thread thread_;
};

}  // namespace bench
