// verge/io/detail/clock_queue.hpp -- timers of clocks that may jump: the date, a user's clock.
//
// The monotonic timers stand in the timer service.  Here time may go back and stand still, so this
// is a timer_heap under a lock, with one alarm for the earliest: a timer of the service, or, for
// CLOCK_REALTIME and CLOCK_BOOTTIME, the reactor's timerfd of that clock, which also tells when the
// date was set.  Whatever wakes it, it reads the clock, completes what is due, and sets the alarm.
//
// The heap is never advanced: its time stays before every expiry, so an expiry that the clock has
// passed already, before it was set back, keeps its place.  Timers whose time never comes are in it
// as well, behind all others; no alarm is set for them.
//
// Invariants
//   CQ1  The heap, the timers of this queue and their waits change under the lock only.  A timer is
//        in the heap if and only if it has waits.
//   CQ2  The alarm is not later than the earliest expiry as the clock ran when it was set.
//   CQ3  A wait that could not begin leaves nothing behind: the heap grows before anything changes,
//        and never when a timer moves.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/base/detail/thread_annotations.hpp>
#include <verge/base/timer_id.hpp>
#include <verge/driver/reactor.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/timer_waits.hpp>
#include <verge/io/detail/wait_operation.hpp>
#include <verge/io/execution_context.hpp>
#include <verge/io/wait_traits.hpp>
#include <verge/queue/timer_heap.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>

namespace verge {

struct boottime_clock;

namespace detail::io {

/// The lock of a clock's queue: a mutex, because it is held across system calls; or a no-op.  Its
/// mutex is in the source file, since public headers do not include those of pthreads.
class VERGE_CAPABILITY("mutex") clock_queue_lock {
public:
    explicit clock_queue_lock(bool used);
    ~clock_queue_lock();
    clock_queue_lock(const clock_queue_lock&) = delete;
    clock_queue_lock& operator=(const clock_queue_lock&) = delete;
    void lock() noexcept VERGE_ACQUIRE();
    void unlock() noexcept VERGE_RELEASE();

private:
    struct impl;
    const std::unique_ptr<impl> impl_;
};

/// What is the same for all clocks.  Its bodies are in src/io/clock_queue.cpp.
class clock_queue_base : public execution_context::service,
                         private clock_watcher,
                         private reactor_timer {
public:
    ~clock_queue_base() override;
    clock_queue_base(const clock_queue_base&) = delete;
    clock_queue_base& operator=(const clock_queue_base&) = delete;

protected:
    enum class kind { user, realtime, boottime };
    clock_queue_base(execution_context& context, kind which);

    struct next_look {
        duration wait;    // how long until the clock should be read again
        duration expiry;  // the earliest expiry, since the clock's epoch
    };
    /// Nothing if no timer waits for an alarm.
    virtual std::optional<next_look> next() VERGE_REQUIRES(lock_) = 0;
    /// Completes what is due.
    virtual void take_due(ready_sink& to) VERGE_REQUIRES(lock_) = 0;
    /// Aborts what waits for an alarm.
    virtual void abort_armed(ready_sink& to) VERGE_REQUIRES(lock_) = 0;
    virtual void take_all(op_queue& to) VERGE_REQUIRES(lock_) = 0;

    /// Sets the alarm for the earliest expiry.
    void set_alarm() VERGE_REQUIRES(lock_);

    loop_core& loop_;
    clock_queue_lock lock_;
    bool closed_ VERGE_GUARDED_BY(lock_) = false;

private:
    void shutdown() override;
    void clock_moved(void* sink) noexcept override;
    static void alarm_rang(reactor_timer& self, timer_id id, void* sink);
    void look(void* sink, timer_id rang) noexcept;
    void close_watch() noexcept VERGE_REQUIRES(lock_);

    reactor& reactor_;
    const kind which_;
    timer_id alarm_ VERGE_GUARDED_BY(lock_);         // in the timer service
    bool watching_ VERGE_GUARDED_BY(lock_) = false;  // the reactor tells this queue of the clock
};

template <class Clock, class Traits>
class clock_queue;

/// A timer of such a clock.  All of it is under the queue's lock (CQ1).
template <class Clock, class Traits>
class clock_timer : public heap_timer<typename Clock::time_point> {
public:
    using queue_type = clock_queue<Clock, Traits>;

private:
    friend queue_type;
    typename Clock::time_point expiry_{};  // also while it has no waits
    timer_waits waits_;
};

template <class Clock, class Traits>
class clock_queue final : public clock_queue_base {
    using timer = clock_timer<Clock, Traits>;
    using clock_time = typename Clock::time_point;

public:
    explicit clock_queue(execution_context& context) : clock_queue_base(context, own_kind()) {}

    std::size_t expires_at(timer& t, const clock_time& expiry, duration) {
        return end_waits(loop_, [&](op_queue& to) {
            const lock_scope hold(lock_);
            const std::size_t count = take(t, to, wait_end::aborted);
            t.expiry_ = expiry;
            return count;
        });
    }
    [[nodiscard]] clock_time expiry(const timer& t) {
        const lock_scope hold(lock_);
        return t.expiry_;
    }
    std::size_t cancel(timer& t) {
        return end_waits(loop_, [&](op_queue& to) {
            const lock_scope hold(lock_);
            return take(t, to, wait_end::aborted);
        });
    }
    std::size_t cancel_one(timer& t) {
        return end_waits(loop_, [&](op_queue& to) {
            const lock_scope hold(lock_);
            const std::size_t count = t.waits_.abort_first(to);
            if (t.waits_.empty()) heap_.cancel(t);
            return count;
        });
    }
    void cancel(timer& t, wait_operation* op) {
        end_waits(loop_, [&](op_queue& to) {
            const lock_scope hold(lock_);
            const std::size_t count = t.waits_.abort(op, to);
            if (t.waits_.empty()) heap_.cancel(t);
            return count;
        });
    }
    void wait(timer& t, wait_operation* op, bool has_slot) {
        if (!try_wait(t, op, has_slot)) op->destroy();  // without the lock: user code
    }
    void move(timer& from, timer& to) {
        const lock_scope hold(lock_);
        to.expiry_ = from.expiry_;
        if (!heap_.cancel(from)) return;
        heap_.arm_at(to, to.expiry_);  // where `from` was there is room: it cannot throw
        to.waits_.take_over(from.waits_);
        to.waits_.set_owner(&to);
    }
    void destroy(timer& t) { cancel(t); }

private:
    static constexpr kind own_kind() noexcept {
        if constexpr (!std::is_same_v<Traits, wait_traits<Clock>>) {
            return kind::user;
        } else if constexpr (std::is_same_v<Clock, std::chrono::system_clock>) {
            return kind::realtime;
        } else {
            return std::is_same_v<Clock, boottime_clock> ? kind::boottime : kind::user;
        }
    }

    // False if the context ends.
    bool try_wait(timer& t, wait_operation* op, bool has_slot) {
        const lock_scope hold(lock_);
        if (closed_) return false;
        // What may throw comes first, and leaves nothing behind.
        if (t.waits_.empty()) heap_.arm_at(t, t.expiry_);
        try {
            if (heap_.first() == &t) set_alarm();
        } catch (...) {
            if (t.waits_.empty()) heap_.cancel(t);
            throw;
        }
        loop_.wait_begun();
        t.waits_.push(op, has_slot, &t);
        return true;
    }

    std::size_t take(timer& t, op_queue& to, wait_end how) VERGE_REQUIRES(lock_) {
        heap_.cancel(t);
        return t.waits_.take(to, how);
    }

    // The timer that the alarm is for, or nullptr.
    [[nodiscard]] timer* earliest() const VERGE_REQUIRES(lock_) {
        timer* const first = heap_.first();
        return first == nullptr || first->expiry_ == (clock_time::max)() ? nullptr : first;
    }
    std::optional<next_look> next() override VERGE_REQUIRES(lock_) {
        const timer* const first = earliest();
        if (first == nullptr) return std::nullopt;
        const clock_time now = Clock::now();
        next_look look{duration::zero(), saturated_to<duration>(first->expiry_.time_since_epoch())};
        if (first->expiry_ > now) look.wait = time_left<Clock, Traits>(first->expiry_, now);
        return look;
    }
    void take_due(ready_sink& to) override VERGE_REQUIRES(lock_) {
        while (timer* const first = earliest()) {
            if (first->expiry_ > Clock::now()) return;
            heap_.cancel(*first);
            first->waits_.take(to, wait_end::expired);
        }
    }
    void abort_armed(ready_sink& to) override VERGE_REQUIRES(lock_) {
        while (timer* const first = earliest()) {
            heap_.cancel(*first);
            first->waits_.take(to, wait_end::aborted);
        }
    }
    void take_all(op_queue& to) override VERGE_REQUIRES(lock_) {
        while (timer* const first = heap_.first())
            take(*first, to, wait_end::expired);
    }

    timer_heap<timer> heap_ VERGE_GUARDED_BY(lock_){(clock_time::min)()};
};

}  // namespace detail::io
}  // namespace verge
