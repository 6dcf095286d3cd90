#include <verge/io/detail/timer_service.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace verge::detail {

timer_service::timer_service(execution_context& context)
    : service(context),
      loop_(use_service<scheduler>(context)),
      reactor_(loop_.use_reactor()),
      locked_(loop_.has_locks()) {}

timer_service& timer_service::of(scheduler& loop) {
    if (timer_service* const there = loop.timers()) return *there;
    auto& made = use_service<timer_service>(loop.context());
    loop.set_timers(&made);
    return made;
}

// Under the timer's lock: takes all waits out.  Its slot is still armed.
std::size_t timer_service::take(loop_timer& timer, op_queue& to, bool aborted) noexcept {
    // relaxed: under the lock; the look in expires_at() needs no more.
    timer.pending_.store(false, std::memory_order_relaxed);
    if (std::exchange(timer.has_slots_, false)) [[unlikely]] {
        timer.waits_.for_each([](wait_operation& op) { op.set_owner(nullptr); });
    }
    std::size_t count = 0;
    while (wait_operation* const op = timer.waits_.pop()) {
        if (aborted) op->abort();
        to.push(op);
        ++count;
    }
    return count;
}

// Not under the timer's lock.  Waits for a reactor that has just begun it, and that will find that
// the id is no longer the timer's (W2).
void timer_service::disarm(timer_id id) noexcept {
    if (reactor_.timers().cancel(id) == cancel_result::running) [[unlikely]] {
        static_cast<void>(reactor_.timers().cancel_and_wait(id));
    }
}

void timer_service::set_expiry(loop_timer& timer, time_point expiry, duration slack) noexcept {
    std::uint8_t bits = 0;
    if (slack > duration(1)) [[unlikely]] {
        const auto count = static_cast<std::uint64_t>(slack.count());
        bits = static_cast<std::uint8_t>(std::bit_width(count) - 1);
    }
    // relaxed, all: numbers that a wait reads under the lock; see W5.  The slot was armed for no
    // later than the old expiry, so only an earlier one uncovers it.
    if (expiry < expiry_of(timer)) timer.covered_.store(false, std::memory_order_relaxed);
    timer.slack_bits_.store(bits, std::memory_order_relaxed);
    timer.expiry_.store(expiry.time_since_epoch().count(), std::memory_order_relaxed);
}

time_point timer_service::expiry_of(const loop_timer& timer) noexcept {
    // relaxed: as in set_expiry().
    return time_point(duration(timer.expiry_.load(std::memory_order_relaxed)));
}

std::size_t timer_service::expires_at(loop_timer& timer, time_point expiry,
                                      duration slack) noexcept {
    // relaxed: who began a wait before this call, in whatever order that is, is seen to have.
    const std::size_t count =
        timer.pending_.load(std::memory_order_relaxed) ? cancel(timer) : std::size_t{0};
    set_expiry(timer, expiry, slack);
    return count;
}

time_point timer_service::expiry(const loop_timer& timer) const noexcept {
    return expiry_of(timer);
}

std::size_t timer_service::cancel(loop_timer& timer) noexcept {
    op_queue ended;
    std::size_t count = 0;
    loop_.expect_post();
    {
        const optional_scope hold(timer.lock_, locked_);
        count = take(timer, ended, true);  // the slot stays: see Lazy slots
    }
    loop_.post_announced(ended, static_cast<std::ptrdiff_t>(count));
    return count;
}

std::size_t timer_service::cancel_one(loop_timer& timer) noexcept {
    op_queue ended;
    {
        const optional_scope hold(timer.lock_, locked_);
        wait_operation* const op = timer.waits_.pop();
        if (op == nullptr) return 0;
        end_one(timer, op, ended);
    }
    loop_.post_announced(ended, 1);
    return 1;
}

void timer_service::cancel(loop_timer& timer, wait_operation* op) noexcept {
    op_queue ended;
    {
        const optional_scope hold(timer.lock_, locked_);
        if (!timer.waits_.remove(op)) return;
        end_one(timer, op, ended);
    }
    loop_.post_announced(ended, 1);
}

// Under the timer's lock: a wait that was taken out.
void timer_service::end_one(loop_timer& timer, wait_operation* op, op_queue& to) noexcept {
    if (timer.has_slots_) op->set_owner(nullptr);
    op->abort();
    to.push(op);
    // relaxed: as in take().
    if (timer.waits_.empty()) timer.pending_.store(false, std::memory_order_relaxed);
}

void timer_service::wait(loop_timer& timer, wait_operation* op, bool has_slot) {
    if (closed_) [[unlikely]]
        return op->destroy();
    loop_.wait_begun();
    try {
        while (!try_wait(timer, op, has_slot)) {
            // The reactor has just begun the old slot, and wants the timer's lock to see what it is
            // for.  Nobody may hold the timer's address for a slot that is not the timer's (W3).
            disarm(slot_of(timer));
        }
    } catch (...) {
        loop_.wait_not_begun();
        throw;
    }
}

bool timer_service::try_wait(loop_timer& timer, wait_operation* op, bool has_slot) {
    const optional_scope hold(timer.lock_, locked_);
    // With waits the slot is right already.  relaxed: under the lock.
    if (timer.waits_.empty() && (!timer.id_ || !timer.covered_.load(std::memory_order_relaxed)) &&
        !arm(timer)) {
        return false;
    }
    if (has_slot) {
        timer.has_slots_ = true;
        op->set_owner(&timer);
    }
    timer.waits_.push(op);
    timer.pending_.store(true, std::memory_order_relaxed);  // relaxed: as in take()
    return true;
}

timer_id timer_service::slot_of(loop_timer& timer) const noexcept {
    const optional_scope hold(timer.lock_, locked_);
    return timer.id_;
}

// Under the timer's lock, so that nobody finds waits without an id: gives the timer a slot for its
// expiry.  False if the reactor is about to look at the one it has.  A time that never comes is the
// last one: the timer stands in a slot like all others, from which the end of the context takes it.
bool timer_service::arm(loop_timer& timer) {
    const reactor_timer_ref::plain what{&timer};
    const time_point at = std::min(expiry_of(timer), last_time);
    auto& timers = reactor_.timers();
    // relaxed: as in set_expiry().
    const std::uint8_t bits = timer.slack_bits_.load(std::memory_order_relaxed);
    const bool exact = bits == 0;
    if (timer.id_) {
        if (exact) {
            const reschedule_result result = timers.rearm(timer.id_, at);
            if (result == reschedule_result::running) return false;
            if (result == reschedule_result::pending) {
                timer.covered_.store(true, std::memory_order_relaxed);  // relaxed: under the lock
                return true;
            }
        } else if (timers.cancel(timer.id_) == cancel_result::running) {
            return false;
        }
        timer.id_ = {};
    }
    if (exact) {
        timer.id_ = timers.emplace(at, what);
    } else {
        const duration slack(std::int64_t{1} << bits);
        timer.id_ = timers.arm_between(at, std::min(deadline_after(at, slack), last_time),
                                       reactor_timer_ref(what));
    }
    timer.covered_.store(exact, std::memory_order_relaxed);  // relaxed: under the lock
    return true;
}

void timer_service::expired(void* object, timer_id id, time_point deadline, void* sink) {
    loop_timer& timer = *static_cast<loop_timer*>(object);
    auto& to = *static_cast<ready_sink*>(sink);
    const optional_scope hold(timer.lock_, to.loop == nullptr || to.loop->has_locks());
    if (timer.id_ != id) return;  // W2
    timer.id_ = {};
    if (timer.waits_.empty()) return;
    if (expiry_of(timer) > deadline && to.loop != nullptr) {
        // It was armed for a wait that was cancelled; what counts comes later.
        try {
            static_cast<void>(to.loop->timers()->arm(timer));  // it has no slot: true
            return;
        } catch (...) {  // no memory for a slot: then they end
            const std::size_t count = take(timer, to.ready, true);
            to.count += count;
            to.finished += static_cast<std::ptrdiff_t>(count);
            return;
        }
    }
    const std::size_t count = take(timer, to.ready, false);
    to.count += count;
    to.finished += static_cast<std::ptrdiff_t>(count);
}

void timer_service::move(loop_timer& from, loop_timer& to) noexcept {
    timer_id id;
    {
        const optional_scope hold(from.lock_, locked_);
        // relaxed, all: nobody else uses them.
        to.slack_bits_.store(from.slack_bits_.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
        to.expiry_.store(from.expiry_.load(std::memory_order_relaxed), std::memory_order_relaxed);
        from.pending_.store(false, std::memory_order_relaxed);
        from.covered_.store(false, std::memory_order_relaxed);
        to.covered_.store(false, std::memory_order_relaxed);  // relaxed: as above
        to.pending_.store(!from.waits_.empty(), std::memory_order_relaxed);
        to.waits_ = std::exchange(from.waits_, {});
        to.has_slots_ = std::exchange(from.has_slots_, false);
        id = std::exchange(from.id_, {});
    }
    if (id) disarm(id);
    op_queue ended;
    std::size_t count = 0;
    {
        const optional_scope hold(to.lock_, locked_);
        if (to.waits_.empty()) return;
        if (to.has_slots_) to.waits_.for_each([&](wait_operation& op) { op.set_owner(&to); });
        try {
            static_cast<void>(arm(to));  // it has no slot: true
        } catch (...) {                  // no memory for a slot: then they end
            count = take(to, ended, true);
        }
    }
    loop_.post_announced(ended, static_cast<std::ptrdiff_t>(count));
}

void timer_service::destroy(loop_timer& timer) noexcept {
    op_queue ended;
    std::size_t count = 0;
    timer_id id;
    {
        const optional_scope hold(timer.lock_, locked_);
        count = take(timer, ended, true);
        id = std::exchange(timer.id_, {});
    }
    if (id) disarm(id);
    loop_.post_announced(ended, static_cast<std::ptrdiff_t>(count));
}

void timer_service::shutdown() {
    closed_ = true;
    ready_sink doomed;
    due_timer batch[64];
    auto& timers = reactor_.timers();
    while (const std::size_t count = timers.collect(last_time, batch, std::size(batch))) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto timer = timers.begin(batch[i]);
            if (!timer) continue;
            if (void* const object = timer.payload().plain_object()) {
                expired(object, batch[i].id, never, &doomed);
            }
            timers.end(timer);
        }
    }
}

}  // namespace verge::detail
