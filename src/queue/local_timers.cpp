#include <verge/base/detail/slot_pool.hpp>
#include <verge/queue/local_timers.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <algorithm>
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

    // Before destruction: all of it that runs user code, while the object can still be called.
    void close() noexcept {
        closed_ = true;
        if (dropping_gone_ != nullptr) *std::exchange(dropping_gone_, nullptr) = true;
        clear();
        if (scope_ != nullptr) scope_->gone = true;
    }

    template <class Arm>
    timer_id schedule(callback&& fn, tick period, missed_ticks policy, Arm&& arm) {
        if (!fn) throw std::invalid_argument("verge::local_timers: an empty function");
        if (closed_ || full()) {
            ++counters_.rejected;
            return {};
        }
        entry* const e = pool_.take_or_grow();
        e->fn = std::move(fn);
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
            w.arm_in_range(e, scale_.ticks_ceil(earliest), scale_.ticks_floor(latest));
        });
    }

    timer_id schedule_every(duration period, callback&& fn, missed_ticks policy) {
        // A period in ticks, rounded up: never early.
        const duration whole = std::max(period, scale_.resolution());
        const tick ticks = static_cast<tick>((whole.count() - 1) / scale_.resolution().count()) + 1;
        return schedule(std::move(fn), ticks, policy, [&](wheel& w, entry& e) {
            w.arm_at(e, tick_after(scale_.ticks_ceil(now_), ticks));
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
        // From before the epoch it may be further than a duration can say.
        if (deadline >= deadline_after(now_, duration::max())) return duration::max();
        return deadline - now_;
    }

    std::size_t run_due(time_point now, std::size_t budget) {
        if (scope_ != nullptr) return 0;
        now_ = std::max(now_, now);
        run_scope scope{*this};
        std::size_t fired = 0;
        wheel_.advance(
            scale_.ticks_floor(now_),
            [&](entry& e) {
                ++fired;
                run(scope, e);
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
        if (entry* const e = running(); e != nullptr) e->now = state::over;
        // All leave the wheel before the first callback is destroyed: what the destructors schedule
        // meanwhile is not dropped.
        while (entry* const e = wheel_.take_any()) {
            e->now = state::dropped;
            e->next_dropped = std::exchange(dropped_, e);
            ++counters_.dropped;
        }
        destroy_dropped();
    }

    void trim() noexcept { const auto freed = pool_.trim(); }

    counters stats() const noexcept {
        counters copy = counters_;
        copy.pending = wheel_.size();
        return copy;
    }

private:
    enum class state : std::uint8_t {
        pending,  // in the wheel
        running,  // its callback has been called and has not returned
        over,     // the same, and it has no further runs
        dropped,  // in dropped_: its callback is about to be destroyed, and its id names nothing
    };
    struct entry : wheel_timer {
        callback fn;                    // while it is pending or dropped
        tick period = 0;                // 0: it runs once
        entry* next_dropped = nullptr;  // while it is dropped
        missed_ticks policy{};
        state now = state::pending;
    };
    using wheel = timing_wheel<entry>;
    using pool = detail::slot_pool<entry>;

    // Lives on the stack of run_due(), and outlives the object if a callback destroys that.
    struct run_scope {
        explicit run_scope(impl& of) noexcept : owner(of) { of.scope_ = this; }
        ~run_scope() {
            if (!gone) owner.scope_ = nullptr;
        }
        run_scope(const run_scope&) = delete;
        run_scope& operator=(const run_scope&) = delete;

        impl& owner;
        entry* running = nullptr;
        bool gone = false;
    };

    [[nodiscard]] entry* find(timer_id id) const noexcept {
        entry* const e = pool_.find(id.value());
        return e == nullptr || e->now == state::dropped ? nullptr : e;
    }

    [[nodiscard]] entry* running() const noexcept {
        return scope_ == nullptr ? nullptr : scope_->running;
    }

    // A timer that runs for the last time has made room for another; one that returns has not.
    [[nodiscard]] bool full() const noexcept {
        const entry* const e = running();
        const bool returns = e != nullptr && e->now == state::running && e->period != 0;
        return wheel_.size() + (returns ? 1 : 0) >= max_timers_;
    }

    // The destructors may clear() again, which only adds to the list, and destroy the object.
    void destroy_dropped() noexcept {
        if (dropping_gone_ != nullptr) return;
        bool gone = false;
        dropping_gone_ = &gone;
        while (dropped_ != nullptr) {
            end(*std::exchange(dropped_, dropped_->next_dropped));
            if (gone) return;
        }
        dropping_gone_ = nullptr;
    }

    // Frees the slot first and destroys the callback last: its captures may call us.
    void end(entry& e) noexcept {
        const callback doomed = std::move(e.fn);
        pool_.free(e);
    }

    void run(run_scope& scope, entry& e) {
        callback fn = std::move(e.fn);
        e.now = state::running;
        scope.running = &e;
        ++counters_.fired;
        try {
            fn();
        } catch (...) {
            if (!scope.gone) finish(scope, e, fn, true);
            throw;
        }
        if (!scope.gone) finish(scope, e, fn, false);
    }

    void finish(run_scope& scope, entry& e, callback& fn, bool threw) noexcept {
        scope.running = nullptr;
        if (threw || e.now == state::over || e.period == 0) {
            pool_.free(e);
            return;
        }
        e.fn = std::move(fn);
        e.now = state::pending;
        const tick now = scale_.ticks_floor(now_);
        wheel_.arm_next(e, next_period(e.deadline(), e.period, now, e.policy).next);
    }

    tick_scale scale_;
    pool pool_;
    wheel wheel_;  // after the pool: destroyed first, so that no timer of a dead slot is linked
    time_point now_;
    counters counters_;
    std::size_t max_timers_;
    run_scope* scope_ = nullptr;     // of the run_due() that is under way
    entry* dropped_ = nullptr;       // linked through next_dropped
    bool* dropping_gone_ = nullptr;  // of the destroy_dropped() that is under way
    bool closed_ = false;
};

local_timers::local_timers() : local_timers(options{}) {}
local_timers::local_timers(const options& opts) : impl_(std::make_unique<impl>(opts)) {}
local_timers::~local_timers() {
    impl_->close();
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

local_timers::counters local_timers::stats() const noexcept {
    return impl_->stats();
}

}  // namespace verge
