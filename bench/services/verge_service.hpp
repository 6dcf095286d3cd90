// bench/services/verge_service.hpp -- Verge's timer thread as a service, with default options.

#pragma once

#include "services/service.hpp"
#include "support/clock.hpp"
#include "support/process.hpp"
#include <verge/driver/timer_thread.hpp>

#include <future>

namespace bench {

class verge_service {
public:
    /// `spin` is how long the thread spins before each deadline.
    explicit verge_service(verge::duration spin = {})
        : verge_service(verge::timer_thread::options{.spin = spin}) {}

    explicit verge_service(const verge::timer_thread::options& options) : timers_(options) {
        std::promise<int> id;
        timers_.schedule_after({}, [&id] { id.set_value(this_thread_id()); });
        thread_id_ = id.get_future().get();
    }

    template <class F>
    struct slot {
        verge::timer_id id{};
        F f{};
    };

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.f = f;
    }

    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        s.id = timers_.schedule_after(verge::duration(delay), s.f);
    }

    template <class F>
    void schedule_at(slot<F>& s, std::int64_t deadline) {
        s.id = timers_.schedule_at(as_time_point(deadline), s.f);
    }

    template <class F>
    bool cancel(slot<F>& s) {
        return timers_.cancel(s.id) == verge::cancel_result::cancelled;
    }

    [[nodiscard]] int thread_id() const { return thread_id_; }
    [[nodiscard]] verge::timer_thread& timers() { return timers_; }

private:
    verge::timer_thread timers_;
    int thread_id_ = 0;
};

}  // namespace bench
