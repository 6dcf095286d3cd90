// verge/io/detail/clock_queue.hpp -- timers of clocks that may jump: the date, a user's clock.
//
// The monotonic timers stand in the timer service.  Here time may go back and stand still, so this
// is an ordered map under a lock, with one alarm for the earliest: a timer of the service, or, for
// CLOCK_REALTIME and CLOCK_BOOTTIME, the reactor's timerfd of that clock, which also tells when the
// date was set.  Whatever wakes it, it asks the clock, completes what is due, and sets the alarm.
// Timers whose time never comes are in a list instead.
//
// Invariants
//   K1  The map, the list, the timers in them and their waits change under the lock only.
//   K2  The alarm is not later than the earliest expiry as the clock ran when it was set.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/driver/reactor.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/loop_timers.hpp>
#include <verge/io/detail/timer_list.hpp>
#include <verge/io/detail/wait_operation.hpp>
#include <verge/io/wait_traits.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace verge {

struct boottime_clock;

namespace detail::io {

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
        duration wait;    // how long until the clock should be asked again
        duration expiry;  // the earliest expiry, since the clock's epoch
    };
    /// Under the lock: nothing if no timer is here.
    virtual std::optional<next_look> next() = 0;
    /// Under the lock: completes what is due.
    virtual void take_due(ready_sink& to) = 0;
    /// Under the lock: aborts what waits for an alarm.
    virtual void abort_armed(ready_sink& to) = 0;
    virtual void take_all(op_queue& to) = 0;

    // A mutex: it is held over system calls.
    void lock();
    void unlock();
    struct hold {
        explicit hold(clock_queue_base& q) : queue(q) { queue.lock(); }
        ~hold() { queue.unlock(); }
        hold(const hold&) = delete;
        hold& operator=(const hold&) = delete;
        clock_queue_base& queue;
    };

    /// Under the lock: sets the alarm for what is the earliest now.
    void set_alarm();

    loop_core& loop_;
    bool closed_ = false;

private:
    struct secret;  // the mutex
    void shutdown() override;
    void clock_moved(void* sink) noexcept override;
    static void alarm_rang(reactor_timer& self, timer_id id, void* sink);
    void look(void* sink, timer_id rang) noexcept;
    void close_watch() noexcept;

    reactor& reactor_;
    const kind which_;
    timer_id alarm_;         // under the lock: in the timer service
    bool watching_ = false;  // under the lock: the reactor tells this queue of the clock
    std::unique_ptr<secret> secret_;
};

template <class Clock, class Traits>
class clock_queue;

/// A timer of such a clock.
template <class Clock, class Traits>
class clock_timer {
public:
    using queue_type = clock_queue<Clock, Traits>;

private:
    friend queue_type;
    friend class timer_list<clock_timer>;
    using map = std::multimap<typename Clock::time_point, clock_timer*>;
    typename Clock::time_point expiry_{};
    wait_ring waits_;
    bool has_slots_ = false;
    bool armed_ = false;            // at_ is valid
    bool listed_ = false;           // prev_ and next_ are
    typename map::node_type node_;  // not armed: kept for the next time
    typename map::iterator at_{};
    clock_timer* prev_ = nullptr;
    clock_timer* next_ = nullptr;
};

template <class Clock, class Traits>
class clock_queue final : public clock_queue_base {
    using timer = clock_timer<Clock, Traits>;
    using clock_time = typename Clock::time_point;

public:
    explicit clock_queue(execution_context& context) : clock_queue_base(context, own_kind()) {}

    std::size_t expires_at(timer& t, const clock_time& expiry, duration) {
        op_queue ended;
        std::size_t count = 0;
        {
            const hold locked(*this);
            count = take(t, ended, true);
            t.expiry_ = expiry;
        }
        loop_.post_announced(ended, static_cast<std::ptrdiff_t>(count));
        return count;
    }
    [[nodiscard]] clock_time expiry(const timer& t) {
        const hold locked(*this);
        return t.expiry_;
    }
    std::size_t cancel(timer& t) {
        op_queue ended;
        std::size_t count = 0;
        {
            const hold locked(*this);
            count = take(t, ended, true);
        }
        loop_.post_announced(ended, static_cast<std::ptrdiff_t>(count));
        return count;
    }
    std::size_t cancel_one(timer& t) {
        op_queue ended;
        {
            const hold locked(*this);
            wait_operation* const op = t.waits_.pop();
            if (op == nullptr) return 0;
            end_one(t, op, ended);
        }
        loop_.post_announced(ended, 1);
        return 1;
    }
    void cancel(timer& t, wait_operation* op) {
        op_queue ended;
        {
            const hold locked(*this);
            if (!t.waits_.remove(op)) return;
            end_one(t, op, ended);
        }
        loop_.post_announced(ended, 1);
    }
    void wait(timer& t, wait_operation* op, bool has_slot) {
        if (!try_wait(t, op, has_slot)) op->destroy();  // outside the lock: user code
    }
    void move(timer& from, timer& to) {
        const hold locked(*this);
        prepare(to);
        to.expiry_ = from.expiry_;
        if (from.waits_.empty()) return;
        remove(from);
        to.waits_ = std::exchange(from.waits_, {});
        to.has_slots_ = std::exchange(from.has_slots_, false);
        if (to.has_slots_) to.waits_.for_each([&](wait_operation& op) { op.set_owner(&to); });
        insert(to);
    }
    void destroy(timer& t) { cancel(t); }

private:
    using map = typename timer::map;

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
        const hold locked(*this);
        if (closed_) return false;
        // What may throw comes first, and leaves nothing behind.
        prepare(t);
        const bool is_first = t.waits_.empty();
        if (is_first) insert(t);
        try {
            if (t.armed_ && t.at_ == map_.begin()) set_alarm();
        } catch (...) {
            if (is_first) remove(t);
            throw;
        }
        loop_.wait_begun();
        if (has_slot) {
            t.has_slots_ = true;
            op->set_owner(&t);
        }
        t.waits_.push(op);
        return true;
    }

    // Under the lock, as all below: memory for the map, once a timer.
    static void prepare(timer& t) {
        if (t.armed_ || t.listed_ || !t.node_.empty()) return;
        map one;
        one.emplace(clock_time{}, &t);
        t.node_ = one.extract(one.begin());
    }
    void insert(timer& t) {
        if (t.expiry_ == (clock_time::max)()) {
            t.listed_ = true;
            return never_.push(t);
        }
        t.node_.key() = t.expiry_;
        t.node_.mapped() = &t;
        t.at_ = map_.insert(std::move(t.node_));
        t.armed_ = true;
    }
    void remove(timer& t) {
        if (std::exchange(t.listed_, false)) return never_.remove(t);
        if (!std::exchange(t.armed_, false)) return;
        t.node_ = map_.extract(t.at_);
    }
    std::size_t take(timer& t, op_queue& to, bool aborted) {
        remove(t);
        if (std::exchange(t.has_slots_, false)) {
            t.waits_.for_each([](wait_operation& op) { op.set_owner(nullptr); });
        }
        std::size_t count = 0;
        while (wait_operation* const op = t.waits_.pop()) {
            if (aborted) op->abort();
            to.push(op);
            ++count;
        }
        return count;
    }
    void end_one(timer& t, wait_operation* op, op_queue& to) {
        if (t.has_slots_) op->set_owner(nullptr);
        op->abort();
        to.push(op);
        if (t.waits_.empty()) remove(t);
    }

    std::optional<next_look> next() override {
        if (map_.empty()) return std::nullopt;
        const clock_time first = map_.begin()->first;
        const clock_time now = Clock::now();
        next_look look{duration::zero(), duration::max()};
        if (first > now) {
            look.wait = time_left<Clock, Traits>(first, now);
        }
        look.expiry = in_nanoseconds(first.time_since_epoch());
        return look;
    }

    void take_due(ready_sink& to) override {
        while (!map_.empty()) {
            if (map_.begin()->first > Clock::now()) return;
            take_first(to, false);
        }
    }
    void abort_armed(ready_sink& to) override {
        while (!map_.empty())
            take_first(to, true);
    }
    void take_first(ready_sink& to, bool aborted) {
        const std::size_t count = take(*map_.begin()->second, to.ready, aborted);
        to.count += count;
        to.finished += static_cast<std::ptrdiff_t>(count);
    }
    void take_all(op_queue& to) override {
        while (!map_.empty())
            take(*map_.begin()->second, to, false);
        while (timer* const t = never_.front())
            take(*t, to, false);
    }

    map map_;
    timer_list<timer> never_;  // with an expiry that never comes
};

}  // namespace detail::io
}  // namespace verge
