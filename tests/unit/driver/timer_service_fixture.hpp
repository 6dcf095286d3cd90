// unit/driver/timer_service_fixture.hpp -- a timer service in virtual time, whose timers write
// their names down.

#pragma once

#include "unit/driver/driver_fixture.hpp"
#include <verge/driver/timer_service.hpp>

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace verge {

// A waiter that only counts how often it was woken.
struct bell final : timer_waker {
    std::atomic<int> rings{0};
    std::atomic<time_point> last{never};
    void wake_before(time_point deadline) noexcept override {
        last = deadline;
        ++rings;
    }
    int rung() { return rings.exchange(0); }
};

class TimerService : public testing::Test {
protected:
    using names = std::vector<int>;
    using options = timer_service_options;

    void make(const options& opts) { timers_.emplace(bell_, opts); }

    callback note(int name) {
        return [this, name] { ran_.push_back(name); };
    }
    // What ran since the last time it was asked.
    names ran() { return std::exchange(ran_, {}); }

    names run(duration now, std::size_t budget = no_budget) {
        const std::size_t count = timers_->run_due(at(now), budget);
        EXPECT_EQ(count, ran_.size());
        return ran();
    }

    std::vector<due_timer> collect(duration now, std::size_t room = 64) {
        std::vector<due_timer> batch(room);
        batch.resize(timers_->collect(at(now), batch.data(), room));
        return batch;
    }

    // begin, run, end: what became of a due timer.
    bool fire(const due_timer& due) {
        const timer_service::running_timer timer = timers_->begin(due);
        if (!timer) return false;
        timer.payload()();
        timers_->end(timer);
        return true;
    }

    bool names_nothing(timer_id id) {
        return timers_->cancel(id) == cancel_result::gone &&
               timers_->cancel_and_wait(id) == cancel_result::gone &&
               timers_->rearm(id, at(1s)) == reschedule_result::gone &&
               timers_->deadline_of(id) == std::nullopt;
    }

    bell bell_;
    std::optional<timer_service> timers_{std::in_place, bell_};
    names ran_;
};

}  // namespace verge
