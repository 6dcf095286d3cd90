// bench/loop_timer/libuv.cpp -- `loop-timer` on libuv, inside only: it is not thread-safe.

#include "loop_timer/loop_timer.hpp"

#include <functional>
#include <stdexcept>

#include <uv.h>

namespace {

class libuv_loop {
public:
    libuv_loop() {
        if (uv_loop_init(&loop_) != 0) throw std::runtime_error("uv_loop_init failed");
        uv_idle_init(&loop_, &again_);
        again_.data = this;
    }
    libuv_loop(const libuv_loop&) = delete;
    libuv_loop& operator=(const libuv_loop&) = delete;
    ~libuv_loop() {
        uv_close(reinterpret_cast<uv_handle_t*>(&again_), nullptr);
        uv_run(&loop_, UV_RUN_DEFAULT);
        uv_loop_close(&loop_);
    }

    // Handles are in the loop's list until they are closed, and must live that long.
    template <class F>
    struct slot {
        uv_timer_t object{};
        F f{};
        slot() = default;
        slot(const slot&) = delete;
        slot& operator=(const slot&) = delete;
        ~slot() {
            uv_loop_t* const loop = object.loop;
            uv_close(reinterpret_cast<uv_handle_t*>(&object), nullptr);
            uv_run(loop, UV_RUN_NOWAIT);
        }
    };

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.f = f;
        uv_timer_init(&loop_, &s.object);
        s.object.data = &s;
    }
    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        const auto fire = [](uv_timer_t* timer) { static_cast<slot<F>*>(timer->data)->f(); };
        uv_timer_start(&s.object, fire, static_cast<std::uint64_t>(delay / 1'000'000), 0);
    }
    template <class F>
    bool cancel(slot<F>& s) {
        uv_timer_stop(&s.object);
        return true;  // nothing fires meanwhile
    }

    template <class Step>
    void run_in_loop(const Step& step) {
        step_ = [&step] { return step(); };
        uv_idle_start(&again_, [](uv_idle_t* idle) {
            auto& self = *static_cast<libuv_loop*>(idle->data);
            if (!self.step_()) uv_idle_stop(idle);
        });
        uv_run(&loop_, UV_RUN_DEFAULT);
    }

private:
    uv_loop_t loop_{};
    uv_idle_t again_{};
    std::function<bool()> step_;
};

const bench::add_peer registered{{.work = "loop-timer",
                                  .name = "libuv",
                                  .run = bench::run_inside_loop<libuv_loop>,
                                  .takes = bench::only_inside}};

}  // namespace
