// bench/services/handrolled_service.hpp -- the hand-rolled timer thread as a service.

#pragma once

#include "services/handrolled_timer.hpp"
#include "services/service.hpp"
#include "support/clock.hpp"

namespace bench {

class handrolled_service {
public:
    template <class F>
    struct slot {
        handrolled_timer::id id = 0;
        F f{};
    };

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.f = f;
    }

    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        s.id = timer_.schedule_at(now_ns() + delay, s.f);
    }

    template <class F>
    void schedule_at(slot<F>& s, std::int64_t deadline) {
        s.id = timer_.schedule_at(deadline, s.f);
    }

    template <class F>
    bool cancel(slot<F>& s) {
        return timer_.cancel(s.id);
    }

    [[nodiscard]] int thread_id() const { return timer_.thread_id(); }

private:
    handrolled_timer timer_;
};

}  // namespace bench
