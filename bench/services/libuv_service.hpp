// bench/services/libuv_service.hpp -- libuv: timers of one loop in a thread.
//
// Not thread-safe: timers are scheduled inside the loop.  libuv counts milliseconds from a time it
// has cached; that is brought up to date before each timer, and delays are rounded up.

#pragma once

#include "services/call_inside.hpp"
#include "services/service.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include <uv.h>

namespace bench {

class libuv_service {
public:
    libuv_service() {
        if (uv_loop_init(&loop_) != 0) throw std::runtime_error("uv_loop_init failed");
        uv_async_init(&loop_, &wake_, [](uv_async_t* wake) {
            static_cast<libuv_service*>(wake->data)->inbox_.answer();
        });
        wake_.data = this;
        thread_ = std::thread([this] { uv_run(&loop_, UV_RUN_DEFAULT); });
        run_inside([this] { thread_id_ = this_thread_id(); });
    }
    libuv_service(const libuv_service&) = delete;
    libuv_service& operator=(const libuv_service&) = delete;
    ~libuv_service() { stop(); }

    template <class F>
    struct slot {
        uv_timer_t object{};
        F f{};
    };

    template <class F>
    void run_inside(const F& f) {
        inbox_.call(f, [this] { uv_async_send(&wake_); });
    }

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.f = f;
        uv_timer_init(&loop_, &s.object);
        s.object.data = &s;
    }

    template <class F>
    void schedule_at(slot<F>& s, std::int64_t deadline) {
        uv_update_time(&loop_);
        const std::int64_t delay = std::max<std::int64_t>(0, deadline - now_ns());
        const auto ms = static_cast<std::uint64_t>((delay + 999'999) / 1'000'000);
        const auto fire = [](uv_timer_t* timer) { static_cast<slot<F>*>(timer->data)->f(); };
        uv_timer_start(&s.object, fire, ms, 0);
    }

    [[nodiscard]] int thread_id() const { return thread_id_; }

    /// Before the slots go: closes all timers, and ends the loop.
    void stop() {
        if (!thread_.joinable()) return;
        run_inside([this] {
            uv_walk(
                &loop_, [](uv_handle_t* handle, void*) { uv_close(handle, nullptr); }, nullptr);
        });
        thread_.join();
        uv_loop_close(&loop_);
    }

private:
    uv_loop_t loop_{};
    uv_async_t wake_{};
    call_inside inbox_;
    int thread_id_ = 0;
    std::thread thread_;
};

}  // namespace bench
