#include "fiber/fiber_record.hpp"
#include "fiber/scheduler_core.hpp"
#include "fiber/worker.hpp"
#include <verge/fiber/detail/parkable.hpp>

#include <system_error>

namespace verge::fibers::detail {

namespace {

constinit thread_local thread_parkable own_parkable;

wake_reason block_thread(parkable& self, verge::parker& parker, parkable::epoch of,
                         time_point deadline) noexcept {
    worker::pay_debts();
    if (!self.commit(of)) return self.finish();
    // Every claim of another that found it parked is followed by one unpark(), which must be
    // awaited: it is the last that the claimer does with this thread.
    if (!parker.park(deadline) && self.claim(of, wake_reason::timed_out) == claim_result::lost) {
        static_cast<void>(parker.park(never));
    }
    return self.finish();
}

wake_reason suspend_fiber(fiber_record& self, parkable::epoch of, time_point deadline) {
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
        return self.finish();  // somebody has ended the wait already: that is not to be lost
    }
    worker::park(self, of);
    // The timer's callback must be over before this wait is: it refers to this fiber.
    if (timers.cancel(id) == cancel_result::running) timers.cancel_and_wait(id);
    return self.finish();
}

}  // namespace

[[gnu::noinline]] parkable& current() noexcept {
    const worker* const w = worker::here();
    if (w != nullptr && w->current() != nullptr) return *w->current();
    return own_parkable;
}

wake_reason parkable::suspend(epoch of, time_point deadline) {
    switch (kind_) {
        case parkable_kind::thread:
            return block_thread(*this, static_cast<thread_parkable&>(*this).parker, of, deadline);
        case parkable_kind::native:
            return block_thread(*this, *static_cast<fiber_record&>(*this).run.blocks, of, deadline);
        case parkable_kind::fiber:
            break;
    }
    return suspend_fiber(static_cast<fiber_record&>(*this), of, deadline);
}

void parkable::make_ready() noexcept {
    switch (kind_) {
        case parkable_kind::thread:
            static_cast<thread_parkable&>(*this).parker.unpark();
            return;
        case parkable_kind::native:
            static_cast<fiber_record&>(*this).run.blocks->unpark();
            return;
        case parkable_kind::fiber:
            break;
    }
    auto& record = static_cast<fiber_record&>(*this);
    record.core->make_ready(record);
}

}  // namespace verge::fibers::detail
