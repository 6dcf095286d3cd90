// Waits on CLOCK_MONOTONIC: begins them, ends them, and keeps each timer's slot in the timer
// service.

#include <verge/io/detail/loop_timers.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace verge::detail::io {

loop_timers::loop_timers(execution_context& context)
    : service(context),
      loop_(use_service<loop_core>(context)),
      reactor_(loop_.use_reactor()),
      locked_(loop_.has_locks()) {}

loop_timers& loop_timers::of(loop_core& loop) {
    if (loop_timers* const there = loop.timers()) return *there;
    auto& made = use_service<loop_timers>(loop.context());
    loop.set_timers(&made);
    return made;
}

// Not under the timer's lock.  Waits for a reactor that has just begun it, and that will find that
// the id is no longer the timer's (LT2).
void loop_timers::disarm(timer_id id) noexcept {
    if (reactor_.timers().cancel(id) == cancel_result::running) [[unlikely]] {
        static_cast<void>(reactor_.timers().cancel_and_wait(id));
    }
}

// Into the list.  It has no slot.
void loop_timers::list(loop_timer& timer) noexcept {
    const optional_scope hold(list_lock_, locked_);
    timer.listed_ = true;
    listed_.push(timer);
}

void loop_timers::unlist(loop_timer& timer) noexcept {
    {
        const optional_scope hold(list_lock_, locked_);
        listed_.remove(timer);
    }
    timer.listed_ = timer.covered_ = false;
    timer.expiry_ = never;
    timer.id_ = {};
}

// Without waits.  The slot was armed for no later than the old expiry, so only an earlier one
// uncovers it; and one that never comes, which wants none.
void loop_timers::set_expiry(loop_timer& timer, time_point expiry, duration slack) noexcept {
    std::uint8_t bits = 0;
    if (slack > duration(1)) [[unlikely]] {
        const auto count = static_cast<std::uint64_t>(slack.count());
        bits = static_cast<std::uint8_t>(std::bit_width(count) - 1);
    }
    timer.slack_bits_ = bits;
    if (timer.listed_) [[unlikely]] {
        if (expiry == never) return;
        unlist(timer);
    }
    if (expiry < timer.expiry_ || expiry == never) [[unlikely]]
        timer.covered_ = false;
    timer.expiry_ = expiry;
}

std::size_t loop_timers::expires_at(loop_timer& timer, time_point expiry, duration slack) noexcept {
    {
        const optional_scope hold(timer.lock_, locked_);
        if (timer.waits_.empty()) [[likely]] {
            set_expiry(timer, expiry, slack);
            return 0;
        }
    }
    return end_and_expire_at(timer, expiry, slack);
}

// The same with waits.  Out of line, so that the path without them is short.
std::size_t loop_timers::end_and_expire_at(loop_timer& timer, time_point expiry,
                                           duration slack) noexcept {
    return end_waits(loop_, [&](op_queue& to) {
        const optional_scope hold(timer.lock_, locked_);
        const std::size_t count = timer.waits_.take(to, wait_end::aborted);
        set_expiry(timer, expiry, slack);
        return count;
    });
}

time_point loop_timers::expiry(const loop_timer& timer) const noexcept {
    const optional_scope hold(timer.lock_, locked_);
    return timer.expiry();
}

std::size_t loop_timers::cancel(loop_timer& timer) noexcept {
    loop_.expect_post();
    return end_waits(loop_, [&](op_queue& to) {
        const optional_scope hold(timer.lock_, locked_);
        return timer.waits_.take(to, wait_end::aborted);  // the slot stays: see Lazy slots
    });
}

std::size_t loop_timers::cancel_one(loop_timer& timer) noexcept {
    return end_waits(loop_, [&](op_queue& to) {
        const optional_scope hold(timer.lock_, locked_);
        return timer.waits_.abort_first(to);
    });
}

void loop_timers::cancel(loop_timer& timer, wait_operation* op) noexcept {
    end_waits(loop_, [&](op_queue& to) {
        const optional_scope hold(timer.lock_, locked_);
        return timer.waits_.abort(op, to);
    });
}

void loop_timers::wait(loop_timer& timer, wait_operation* op, bool has_slot) {
    if (closed_) [[unlikely]]
        return op->destroy();
    loop_.wait_begun();
    try {
        while (!try_wait(timer, op, has_slot)) {
            // The reactor has just begun the old slot, and wants the timer's lock to see what it is
            // for.  No thread may hold the timer's address for a slot that is not its own (LT3).
            disarm(slot_of(timer));
        }
    } catch (...) {
        loop_.wait_not_begun();
        throw;
    }
}

bool loop_timers::try_wait(loop_timer& timer, wait_operation* op, bool has_slot) {
    const optional_scope hold(timer.lock_, locked_);
    // With waits the slot is right already.
    if (timer.waits_.empty() && !timer.covered_ && !arm(timer)) return false;
    timer.waits_.push(op, has_slot, &timer);
    return true;
}

timer_id loop_timers::slot_of(loop_timer& timer) const noexcept {
    const optional_scope hold(timer.lock_, locked_);
    return timer.id();
}

// Under the timer's lock, so that no thread finds waits without an id: gives the timer a slot for
// its expiry, or lists it.  False if the reactor is about to look at the slot that it has.
bool loop_timers::arm(loop_timer& timer) {
    const reactor_timer_ref::plain what{&timer};
    const time_point at = timer.expiry_;
    auto& timers = reactor_.timers();
    const bool comes = at != never;
    const bool exact = comes && timer.slack_bits_ == 0;
    if (timer.id_) {
        if (exact) {
            const reschedule_result result = timers.rearm(timer.id_, at);
            if (result == reschedule_result::running) return false;
            if (result == reschedule_result::pending) {
                timer.covered_ = true;
                return true;
            }
        } else if (timers.cancel(timer.id_) == cancel_result::running) {
            return false;
        }
        timer.id_ = {};
    }
    if (exact) {
        timer.id_ = timers.emplace(at, what);
    } else if (comes) {
        const duration slack(std::int64_t{1} << timer.slack_bits_);
        timer.id_ = timers.arm_between(at, std::min(deadline_after(at, slack), last_time),
                                       reactor_timer_ref(what));
    } else {
        list(timer);
    }
    timer.covered_ = exact || !comes;
    return true;
}

void loop_timers::expired(void* object, timer_id id, time_point deadline, void* sink) {
    loop_timer& timer = *static_cast<loop_timer*>(object);
    auto& to = *static_cast<ready_sink*>(sink);
    const optional_scope hold(timer.lock_, to.loop == nullptr || to.loop->has_locks());
    if (timer.id() != id) return;  // LT2
    timer.id_ = {};
    timer.covered_ = false;
    if (timer.waits_.empty()) return;
    if (timer.expiry_ > deadline && to.loop != nullptr) {
        // It was armed for a wait that was cancelled; what counts comes later.
        try {
            static_cast<void>(to.loop->timers()->arm(timer));  // it has no slot: true
            return;
        } catch (...) {  // no memory for a slot: then they end
            timer.waits_.take(to, wait_end::aborted);
            return;
        }
    }
    timer.waits_.take(to, wait_end::expired);
}

void loop_timers::move(loop_timer& from, loop_timer& to) noexcept {
    timer_waits waits;
    std::uint8_t slack_bits = 0;
    time_point expiry;
    timer_id id;
    {
        const optional_scope hold(from.lock_, locked_);
        if (from.listed_) unlist(from);
        waits.take_over(from.waits_);
        slack_bits = from.slack_bits_;
        expiry = from.expiry_;
        from.covered_ = false;
        id = std::exchange(from.id_, {});
    }
    if (id) disarm(id);
    end_waits(loop_, [&](op_queue& ended) -> std::size_t {
        const optional_scope hold(to.lock_, locked_);
        to.slack_bits_ = slack_bits;
        to.expiry_ = expiry;
        to.covered_ = false;
        if (waits.empty()) return 0;
        to.waits_.take_over(waits);
        to.waits_.set_owner(&to);
        try {
            static_cast<void>(arm(to));  // it has no slot: true
            return 0;
        } catch (...) {  // no memory for a slot: then they end
            return to.waits_.take(ended, wait_end::aborted);
        }
    });
}

void loop_timers::destroy(loop_timer& timer) noexcept {
    end_waits(loop_, [&](op_queue& ended) {
        std::size_t count = 0;
        timer_id id;
        {
            const optional_scope hold(timer.lock_, locked_);
            count = timer.waits_.take(ended, wait_end::aborted);
            if (timer.listed_) unlist(timer);
            timer.covered_ = false;
            id = std::exchange(timer.id_, {});
        }
        if (id) disarm(id);
        return count;
    });
}

loop_timer* loop_timers::first_listed() noexcept {
    const optional_scope hold(list_lock_, locked_);
    return listed_.front();
}

void loop_timers::shutdown() {
    closed_ = true;
    ready_sink doomed;
    reactor_.timers().dispatch_due(last_time, no_budget, [&](auto timer, const due_timer& due) {
        if (void* const object = timer.payload().plain_object()) {
            expired(object, due.id, never, &doomed);
        }
    });
    while (loop_timer* const timer = first_listed()) {
        const optional_scope hold(timer->lock_, locked_);
        unlist(*timer);
        timer->waits_.take(doomed, wait_end::expired);
    }
}

}  // namespace verge::detail::io
