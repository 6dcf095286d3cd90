// src/fibers/fiber_record.cpp -- how a fiber waits.

#include "fibers/fiber_record.hpp"

#include "fibers/scheduler_core.hpp"
#include "fibers/worker.hpp"

#include <system_error>

namespace verge::fibers::detail {

namespace {

wake_reason suspend_fiber(waiter& who, waiter::epoch of, time_point deadline) {
    auto& self = static_cast<fiber_record&>(who);
    if (deadline == never) {
        worker::park(self, of);
        return self.finish();
    }
    timer_thread& timers = self.core->timers;
    timer_id id;
    try {
        id = timers.schedule_at(deadline, [&self, of] { self.wake(of, wake_reason::timed_out); });
        if (!id) {
            throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                                    "verge: the timer thread takes no timer");
        }
    } catch (...) {
        if (self.claim(of, wake_reason::timed_out) != claim_result::lost) throw;
        return self.finish();  // the wait was ended already: its reason must not be lost
    }
    worker::park(self, of);
    // The timer's callback must end before this wait does: it refers to this fiber.
    if (timers.cancel(id) == cancel_result::running) timers.cancel_and_wait(id);
    return self.finish();
}

void make_fiber_ready(waiter& who) noexcept {
    auto& self = static_cast<fiber_record&>(who);
    self.core->make_ready(self);
}

wake_reason suspend_native(waiter& who, waiter::epoch of, time_point deadline) {
    return block_thread(who, *static_cast<fiber_record&>(who).run.blocks, of, deadline);
}

void make_native_ready(waiter& who) noexcept {
    static_cast<fiber_record&>(who).run.blocks->unpark();
}

void flush_wakeups(waiter&) noexcept {
    worker::flush_deferred_wakeups();
}

}  // namespace

constinit const waiter_operations fiber_operations{
    .suspend = &suspend_fiber, .make_ready = &make_fiber_ready, .before_block = &flush_wakeups};

constinit const waiter_operations native_operations{
    .suspend = &suspend_native, .make_ready = &make_native_ready, .before_block = &flush_wakeups};

}  // namespace verge::fibers::detail
