// bench/loop_timer/libev.cpp -- `loop-timer` on libev, inside only: it is not thread-safe.

#include "loop_timer/loop_timer.hpp"

#include <functional>
#include <stdexcept>

#include <ev.h>

namespace {

class libev_loop {
public:
    libev_loop() : loop_(ev_loop_new(EVFLAG_AUTO)) {
        if (loop_ == nullptr) throw std::runtime_error("ev_loop_new failed");
    }
    libev_loop(const libev_loop&) = delete;
    libev_loop& operator=(const libev_loop&) = delete;
    ~libev_loop() { ev_loop_destroy(loop_); }

    template <class F>
    struct slot {
        ev_timer object{};
        F f{};
    };

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
    void schedule_after(slot<F>& s, std::int64_t delay) {
        ev_timer_set(&s.object, static_cast<double>(delay) * 1e-9, 0.);
        ev_timer_start(loop_, &s.object);
    }
    template <class F>
    bool cancel(slot<F>& s) {
        ev_timer_stop(loop_, &s.object);
        return true;  // nothing fires meanwhile
    }

    template <class Step>
    void run_in_loop(const Step& step) {
        step_ = [&step] { return step(); };
        ev_idle_init(&again_, [](struct ev_loop* loop, ev_idle* idle, int) {
            if (!static_cast<libev_loop*>(idle->data)->step_()) ev_idle_stop(loop, idle);
        });
        again_.data = this;
        ev_idle_start(loop_, &again_);
        ev_run(loop_, 0);
    }

private:
    struct ev_loop* loop_;
    ev_idle again_{};
    std::function<bool()> step_;
};

const bench::add_peer registered{{.work = "loop-timer",
                                  .name = "libev",
                                  .run = bench::run_inside_loop<libev_loop>,
                                  .takes = bench::only_inside}};

}  // namespace
