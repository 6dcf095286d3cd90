// bench/services/libevent_service.hpp -- libevent: events of one thread-safe base in a thread.
//
// Events are assigned once and then added and deleted, as its documentation advises.  event_del
// waits for a callback that runs, so that the slot may be used again after it.

#pragma once

#include "services/service.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>
#include <thread>

#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>

namespace bench {

/// With `timerfd` the base takes CLOCK_MONOTONIC and a timerfd instead of the coarse clock and
/// epoll's milliseconds: dearer, and what to use if lateness matters.
enum class libevent_precision { standard, timerfd };

class libevent_service {
public:
    explicit libevent_service(libevent_precision precision = libevent_precision::standard) {
        evthread_use_pthreads();
        event_config* config = event_config_new();
        if (precision == libevent_precision::timerfd) {
            event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
        }
        base_ = event_base_new_with_config(config);
        event_config_free(config);
        if (base_ == nullptr) throw std::runtime_error("event_base_new_with_config failed");
        std::promise<int> started;
        thread_ = std::thread([this, &started] {
            started.set_value(this_thread_id());
            event_base_loop(base_, EVLOOP_NO_EXIT_ON_EMPTY);
        });
        thread_id_ = started.get_future().get();
    }
    libevent_service(const libevent_service&) = delete;
    libevent_service& operator=(const libevent_service&) = delete;
    ~libevent_service() {
        stop();
        event_base_free(base_);
    }

    template <class F>
    struct slot {
        event object{};
        F f{};
        bool fired = false;  // written by the loop's thread; read after event_del

        slot() = default;
        slot(const slot&) = delete;
        slot& operator=(const slot&) = delete;
        ~slot() {
            if (event_initialized(&object)) event_del(&object);  // the base knows its address
        }
    };

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.f = f;
        const auto fire = [](evutil_socket_t, short, void* argument) {
            auto& self = *static_cast<slot<F>*>(argument);
            self.fired = true;
            self.f();
        };
        event_assign(&s.object, base_, -1, 0, fire, &s);
    }

    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        const std::int64_t us = std::max<std::int64_t>(0, (delay + 999) / 1000);
        const timeval after{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
        s.fired = false;
        event_add(&s.object, &after);
    }

    template <class F>
    void schedule_at(slot<F>& s, std::int64_t deadline) {
        schedule_after(s, deadline - now_ns());
    }

    template <class F>
    bool cancel(slot<F>& s) {
        event_del(&s.object);
        return !s.fired;
    }

    [[nodiscard]] int thread_id() const { return thread_id_; }

    /// Ends the loop.
    void stop() {
        if (!thread_.joinable()) return;
        event_base_loopbreak(base_);
        thread_.join();
    }

private:
    event_base* base_ = nullptr;
    int thread_id_ = 0;
    std::thread thread_;
};

}  // namespace bench
