// src/queue/local_timers.cpp -- local_timers: a timing wheel, a pool of callbacks, and reentrancy.

#include <verge/base/detail/slot_pool.hpp>
#include <verge/queue/local_timers.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace verge {

class local_timers::impl {
public:
    explicit impl(const options& opts)
        : scale_(opts.resolution, opts.start),
          wheel_(0),
          now_(opts.start),
          max_timers_(opts.max_timers) {
        if (opts.reserve > 0) pool_.adopt(pool::make_chunks(opts.reserve));
    }

    ~impl() = default;
    impl(const impl&) = delete;
    impl& operator=(const impl&) = delete;

    // The part of destruction that runs user code, while the object can still be called.
    void close() noexcept {
        const user here(*this);
        closed_ = true;
        dropping_ = false;  // a clear() under way leaves the rest to this one
        clear();
    }

    // Destroys it; if user code is running inside it, when that has returned.
    static void release(std::unique_ptr<impl> last) noexcept {
        impl& self = *last;
        if (self.users_ > 0) self.kept_ = std::move(last);
    }

    template <class Arm>
    timer_id schedule(callback&& fn, tick period, missed_ticks policy, Arm&& arm) {
        if (!fn) throw std::invalid_argument("verge::local_timers: an empty function");
        if (closed_ || full()) {
            ++counters_.rejected;
            return {};
        }
        entry* const e = pool_.take_or_grow();
        const user here(*this);
        e->fn = std::move(fn);
        if (closed_ || full()) [[unlikely]] {  // the move ran a destructor that scheduled or closed
            ++counters_.rejected;
            end(*e);
            return {};
        }
        e->period = period;
        e->policy = policy;
        e->now = state::pending;
        arm(wheel_, *e);
        ++counters_.scheduled;
        return timer_id(pool::id_of(*e));
    }

    timer_id schedule_at(time_point deadline, callback&& fn) {
        return schedule(std::move(fn), 0, {},
                        [&](wheel& w, entry& e) { w.arm_at(e, scale_.ticks_ceil(deadline)); });
    }

    timer_id schedule_between(time_point earliest, time_point latest, callback&& fn) {
        return schedule(std::move(fn), 0, {}, [&](wheel& w, entry& e) {
            // A range until never has no end, but its tick must be reached.
            const tick end = scale_.ticks_floor(std::min(latest, last_time));
            w.arm_in_range(e, scale_.ticks_ceil(earliest), end);
        });
    }

    timer_id schedule_every(duration period, callback&& fn, missed_ticks policy) {
        const tick ticks = ticks_of(period);
        return schedule(std::move(fn), ticks, policy, [&](wheel& w, entry& e) {
            w.arm_at(e, if_reached(tick_after(scale_.ticks_ceil(now_), ticks)));
        });
    }

    cancel_result cancel(timer_id id) noexcept {
        entry* const e = find(id);
        if (e == nullptr) return cancel_result::gone;
        if (e->now != state::pending) {
            e->now = state::over;
            return cancel_result::running;
        }
        wheel_.cancel(*e);
        ++counters_.cancelled;
        end(*e);
        return cancel_result::cancelled;
    }

    reschedule_result reschedule(timer_id id, time_point deadline) noexcept {
        entry* const e = find(id);
        if (e == nullptr) return reschedule_result::gone;
        if (e->now != state::pending) return reschedule_result::running;
        wheel_.arm_at(*e, scale_.ticks_ceil(deadline));
        ++counters_.rescheduled;
        return reschedule_result::pending;
    }

    std::optional<duration> remaining(timer_id id) const noexcept {
        const entry* const e = find(id);
        if (e == nullptr || e->now != state::pending) return std::nullopt;
        const time_point deadline = scale_.time_of(e->deadline());
        if (deadline <= now_ && deadline != never) return duration::zero();
        // If now_ is before the epoch, the difference may overflow a duration.
        if (deadline >= deadline_after(now_, duration::max())) return duration::max();
        return deadline - now_;
    }

    std::size_t run_due(time_point now, std::size_t budget) {
        if (advancing_) return 0;
        const user here(*this);
        const run_scope scope(*this);
        now_ = std::max(now_, std::min(now, last_time));
        std::size_t fired = 0;
        wheel_.advance(
            now_tick(),
            [&](entry& e) {
                ++fired;
                run(e);
            },
            budget);
        return fired;
    }

    time_point next_bound() const noexcept {
        return scale_.time_of(wheel_.next_bound().value_or(never_tick));
    }
    time_point next_expiry() const noexcept {
        return scale_.time_of(wheel_.next_expiry().value_or(never_tick));
    }
    time_point now() const noexcept { return now_; }
    std::size_t size() const noexcept { return wheel_.size(); }

    void clear() noexcept {
        if (running_ != nullptr) running_->now = state::over;
        // All leave the wheel before the first callback is destroyed: timers that the destructors
        // schedule are not dropped.
        while (entry* const e = wheel_.take_any()) {
            e->now = state::gone;
            e->next_dropped = std::exchange(dropped_, e);
            ++counters_.dropped;
        }
        destroy_dropped();
    }

    void trim() noexcept { const auto freed = pool_.trim(); }

    timer_stats stats() const noexcept {
        timer_stats copy;
        static_cast<timer_counters&>(copy) = counters_;
        copy.pending = wheel_.size();
        return copy;
    }

private:
    // A callback stays in its slot from schedule() on, is called there and destroyed there: a move
    // may run user code, which must not happen inside the other operations.
    enum class state : std::uint8_t {
        pending,  // in the wheel
        running,  // its callback has been called and has not returned
        over,     // the same, and it has no further runs
        gone,     // its id names nothing: the slot is free, or its callback is being moved in or
                  // destroyed
    };
    struct entry : wheel_timer {
        callback fn;
        tick period = 0;                // 0: it runs once
        entry* next_dropped = nullptr;  // while it is in dropped_
        missed_ticks policy{};
        state now = state::gone;
    };
    using wheel = timing_wheel<entry>;
    using pool = detail::slot_pool<entry>;

    // Lives while user code may run inside a member function.  If that code destroys the object,
    // the outermost of these frees the impl.
    class user {
    public:
        explicit user(impl& of) noexcept : of_(of) { ++of_.users_; }
        ~user() {
            if (--of_.users_ > 0) return;
            const std::unique_ptr<impl> last = std::move(of_.kept_);
        }
        user(const user&) = delete;
        user& operator=(const user&) = delete;

    private:
        impl& of_;
    };

    // Lives on the stack of run_due().
    class run_scope {
    public:
        explicit run_scope(impl& of) noexcept : of_(of) { of_.advancing_ = true; }
        ~run_scope() { of_.advancing_ = false; }
        run_scope(const run_scope&) = delete;
        run_scope& operator=(const run_scope&) = delete;

    private:
        impl& of_;
    };

    [[nodiscard]] entry* find(timer_id id) const noexcept {
        entry* const e = pool_.find(id.value());
        return e == nullptr || e->now == state::gone ? nullptr : e;
    }

    // A period in ticks, rounded up: never early.
    [[nodiscard]] tick ticks_of(duration period) const noexcept {
        if (period == duration::max()) return never_tick;
        const duration whole = std::max(period, scale_.resolution());
        return static_cast<tick>((whole.count() - 1) / scale_.resolution().count()) + 1;
    }

    // What the wheel is told that the time is.  It is rounded down, but at the end of time it is
    // rounded up: the tick after last_time stands for the deadlines between it and the tick before,
    // and there is no later run_due() that could reach it.  last_time is not before any of them, so
    // nothing runs early.
    [[nodiscard]] tick now_tick() const noexcept {
        return now_ == last_time ? scale_.ticks_ceil(now_) : scale_.ticks_floor(now_);
    }

    // The tick of a periodic timer, or never if that lies after last_time.
    [[nodiscard]] tick if_reached(tick at) const noexcept {
        return at > last_tick_ ? never_tick : at;
    }

    // A timer on its last run no longer counts against max_timers; a periodic one that will be
    // armed again does.
    [[nodiscard]] bool full() const noexcept {
        const entry* const e = running_;
        const bool returns = e != nullptr && e->now == state::running && e->period != 0;
        return wheel_.size() + (returns ? 1 : 0) >= max_timers_;
    }

    // The destructors may call clear() again, which only adds to the list, or destroy the object,
    // which empties it.
    void destroy_dropped() noexcept {
        if (dropping_) return;
        const user here(*this);
        dropping_ = true;
        while (dropped_ != nullptr)
            end(*std::exchange(dropped_, dropped_->next_dropped));
        dropping_ = false;
    }

    // Destroys the callback in place, and frees the slot last: the captures' destructors may call
    // schedule(), which must not reuse the slot yet.
    void end(entry& e) noexcept {
        const user here(*this);
        e.now = state::gone;
        std::destroy_at(&e.fn);
        ::new (static_cast<void*>(&e.fn)) callback;
        pool_.free(e);
    }

    void run(entry& e) {
        e.now = state::running;
        running_ = &e;
        ++counters_.fired;
        try {
            e.fn();
        } catch (...) {
            running_ = nullptr;
            end(e);
            throw;
        }
        running_ = nullptr;
        if (e.now == state::over || e.period == 0) {
            end(e);
            return;
        }
        e.now = state::pending;
        const period_step step = next_period(e.deadline(), e.period, now_tick(), e.policy);
        wheel_.arm_next(e, if_reached(step.next));
    }

    tick_scale scale_;
    tick last_tick_ = scale_.ticks_floor(last_time);
    pool pool_;
    wheel wheel_;  // after the pool: destroyed first, so that it links no destroyed timer
    time_point now_;
    timer_counters counters_;
    std::size_t max_timers_;
    entry* running_ = nullptr;    // its callback has been called and has not returned
    entry* dropped_ = nullptr;    // linked through next_dropped
    std::unique_ptr<impl> kept_;  // itself, when the object is gone and user code still runs
    std::size_t users_ = 0;       // of class user
    bool advancing_ = false;      // a run_due() is under way
    bool dropping_ = false;       // a destroy_dropped() is under way
    bool closed_ = false;
};

local_timers::local_timers() : local_timers(options{}) {}
local_timers::local_timers(const options& opts) : impl_(std::make_unique<impl>(opts)) {}
local_timers::~local_timers() {
    impl_->close();
    impl::release(std::move(impl_));
}

timer_id local_timers::schedule_at(time_point deadline, callback fn) {
    return impl_->schedule_at(deadline, std::move(fn));
}

timer_id local_timers::schedule_after(duration delay, callback fn) {
    return impl_->schedule_at(deadline_after(impl_->now(), delay), std::move(fn));
}

timer_id local_timers::schedule_between(time_point earliest, time_point latest, callback fn) {
    return impl_->schedule_between(earliest, latest, std::move(fn));
}

timer_id local_timers::schedule_every(duration period, callback fn, missed_ticks policy) {
    return impl_->schedule_every(period, std::move(fn), policy);
}

cancel_result local_timers::cancel(timer_id id) noexcept {
    return impl_->cancel(id);
}

reschedule_result local_timers::reschedule(timer_id id, time_point deadline) noexcept {
    return impl_->reschedule(id, deadline);
}

std::optional<duration> local_timers::remaining(timer_id id) const noexcept {
    return impl_->remaining(id);
}

std::size_t local_timers::run_due(time_point now, std::size_t budget) {
    return impl_->run_due(now, budget);
}

time_point local_timers::next_bound() const noexcept {
    return impl_->next_bound();
}

time_point local_timers::next_expiry() const noexcept {
    return impl_->next_expiry();
}

time_point local_timers::now() const noexcept {
    return impl_->now();
}

std::size_t local_timers::size() const noexcept {
    return impl_->size();
}

void local_timers::clear() noexcept {
    impl_->clear();
}

void local_timers::trim() noexcept {
    impl_->trim();
}

timer_stats local_timers::stats() const noexcept {
    return impl_->stats();
}

}  // namespace verge
