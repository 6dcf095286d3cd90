// bench/services/asio_service.hpp -- standalone Asio: steady_timers of one io_context in a thread.
//
// The fastest way by its documentation: the concurrency hint 1 (one thread runs the loop), timer
// objects that are used again, and the concrete executor instead of any_io_executor.  Distinct
// timers may be used from distinct threads, so no strand is needed.

#pragma once

#include "services/service.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"

#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

namespace bench {

class asio_service {
    using timer = asio::steady_timer::rebind_executor<asio::io_context::executor_type>::other;

public:
    template <class F>
    struct slot {
        std::optional<timer> object;
        F f{};
    };

    asio_service() {
        std::promise<int> started;
        thread_ = std::thread([this, &started] {
            started.set_value(this_thread_id());
            context_.run();
        });
        thread_id_ = started.get_future().get();
    }
    asio_service(const asio_service&) = delete;
    asio_service& operator=(const asio_service&) = delete;
    ~asio_service() {
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
        s.object->async_wait([f = s.f](const asio::error_code& error) {
            if (!error) f();
        });
    }

    asio::io_context context_{1};
    asio::executor_work_guard<asio::io_context::executor_type> keep_running_{
        context_.get_executor()};
    int thread_id_ = 0;
    std::thread thread_;
};

}  // namespace bench
