// bench/loop_timer/libevent.cpp -- `loop-timer` on libevent.

#include "loop_timer/loop_timer.hpp"
#include "services/libevent_service.hpp"

#include <functional>
#include <stdexcept>

namespace {

class libevent_loop {
public:
    libevent_loop() {
        event_config* config = event_config_new();
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        base_ = event_base_new_with_config(config);
        event_config_free(config);
        if (base_ == nullptr) throw std::runtime_error("event_base_new_with_config failed");
    }
    libevent_loop(const libevent_loop&) = delete;
    libevent_loop& operator=(const libevent_loop&) = delete;
    ~libevent_loop() { event_base_free(base_); }

    template <class F>
    struct slot {
        event object{};
        F f{};
    };

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.f = f;
        const auto fire = [](evutil_socket_t, short, void* argument) {
            static_cast<slot<F>*>(argument)->f();
        };
        event_assign(&s.object, base_, -1, 0, fire, &s);
    }
    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        const std::int64_t us = delay / 1000;
        const timeval after{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
        event_add(&s.object, &after);
    }
    template <class F>
    bool cancel(slot<F>& s) {
        event_del(&s.object);
        return true;  // nothing fires meanwhile
    }

    template <class Step>
    void run_in_loop(const Step& step) {
        step_ = [&step] { return step(); };
        event_assign(&again_, base_, -1, 0, &run_step, this);
        event_active(&again_, EV_TIMEOUT, 0);
        event_base_loop(base_, 0);
    }

private:
    static void run_step(evutil_socket_t, short, void* argument) {
        auto& self = *static_cast<libevent_loop*>(argument);
        if (self.step_()) {
            event_active(&self.again_, EV_TIMEOUT, 0);
        } else {
            event_base_loopbreak(self.base_);
        }
    }

    event_base* base_ = nullptr;
    event again_{};
    std::function<bool()> step_;
};

const bench::add_peer registered{
    {.work = "loop-timer",
     .name = "libevent",
     .run = bench::run_loop_timer<libevent_loop, bench::libevent_service>}};

}  // namespace
