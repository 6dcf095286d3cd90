// bench/services/verge_loop_service.hpp -- Verge's event loop in a thread, as asio_service is.

#pragma once

#include "services/service.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/steady_timer.hpp>

#include <chrono>
#include <future>
#include <optional>
#include <thread>

namespace bench {

class verge_loop_service {
    using timer = verge::steady_timer::rebind_executor<verge::io_context::executor_type>::other;

public:
    template <class F>
    struct slot {
        std::optional<timer> object;
        F f{};
    };

    verge_loop_service() {
        std::promise<int> started;
        thread_ = std::thread([this, &started] {
            started.set_value(this_thread_id());
            context_.run();
        });
        thread_id_ = started.get_future().get();
    }
    verge_loop_service(const verge_loop_service&) = delete;
    verge_loop_service& operator=(const verge_loop_service&) = delete;
    ~verge_loop_service() {
        context_.stop();
        thread_.join();
    }

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.object.emplace(context_.get_executor());
        s.f = f;
    }

    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        s.object->expires_after(std::chrono::nanoseconds(delay));
        wait(s);
    }

    template <class F>
    void schedule_at(slot<F>& s, std::int64_t deadline) {
        s.object->expires_at(as_time_point(deadline));
        wait(s);
    }

    template <class F>
    bool cancel(slot<F>& s) {
        return s.object->cancel() != 0;
    }

    [[nodiscard]] int thread_id() const { return thread_id_; }

private:
    template <class F>
    void wait(slot<F>& s) {
        s.object->async_wait([f = s.f](std::error_code error) {
            if (!error) f();
        });
    }

    verge::io_context context_{1};
    verge::executor_work_guard<verge::io_context::executor_type> keep_running_{
        context_.get_executor()};
    int thread_id_ = 0;
    std::thread thread_;
};

}  // namespace bench
