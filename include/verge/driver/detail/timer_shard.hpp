// verge/driver/detail/timer_shard.hpp -- one shard of a timer service: lock, wheel, slots, nearest.
//
// States of a timer, all changed under the shard's lock:
//
//     free --arm--> armed --collect--> due --begin--> running --end--> free
//                    | ^                |  |              |
//                    | +--- rearm ------+  |              +--again (periodic)--> armed
//                    +-- cancel, close ----+--> free
//
//     free --arm--> in_transition --> armed
//     armed, due --cancel, close--> in_transition --> free
//
//     The latter two if moving the payload into its slot, or destroying it, runs user code: the
//     thread that arms or ends the timer does that between two critical sections.
//
//   free     the slot is in the pool
//   armed    in the wheel
//   due      taken out of the wheel by collect(); its id is in a batch, or in a closure that was
//            passed to an executor
//   running  its callback has begun.  The payload belongs to the thread that runs it, and stays
//            where it is: slots do not move.
//   in_transition
//            the payload is being constructed or destroyed.  Other threads cannot find the timer.
//
// Invariants
//   T1  The thread that moves a timer out of armed or due (begin, cancel, close, drop) is the one
//       that ends it: exactly one end.
//   T2  A batch holds ids, never addresses.  `turn` counts how often a timer was collected, so that
//       an entry of an old batch does not begin a timer that was rearmed and is due again.
//   T3  nearest <= every armed deadline.  It is written under the lock only; arming lowers it,
//       collect() sets it, refresh_nearest() raises it.  Cancelling does not change it, which costs
//       at most one needless wake-up.
//   T4  After closed was set, nothing becomes armed.
//   T5  A timer that is running or in_transition is so by one thread, which is inside a
//   running_scope
//       of it.  So a wait for the end of all others (wait_for, wait_idle) knows which are its own.
//
// Memory orders
//   nearest  arm and rearm lower it with seq_cst, before they load the service's wake_at; the
//            waiter stores wake_at, then loads nearest, both with seq_cst: one sees the other.
//   ended    changed by end() and read by waiters, both under the lock, which orders it; the kernel
//            compares it again when a waiter goes to sleep.

#pragma once

#include <verge/base/detail/biased_lock.hpp>
#include <verge/base/detail/slot_pool.hpp>
#include <verge/base/timer_id.hpp>
#include <verge/base/timer_stats.hpp>
#include <verge/driver/due_timer.hpp>
#include <verge/driver/timer_service_options.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace verge::detail::driver {

/// Whether the destructor of this payload is a no-op, so that it need not be called.  A payload
/// type may decide that for each value, as a callback does.
template <class Payload>
[[nodiscard]] bool has_trivial_destroy(const Payload& payload) noexcept {
    if constexpr (requires { payload.has_trivial_destroy(); }) {
        return payload.has_trivial_destroy();
    } else {
        return std::is_trivially_destructible_v<Payload>;
    }
}

/// Whether a move of this value runs no user code.
template <class T>
[[nodiscard]] bool has_trivial_move(const T& value) noexcept {
    if constexpr (requires { value.has_trivial_move(); }) {
        return value.has_trivial_move();
    } else {
        return std::is_trivially_copyable_v<T>;
    }
}

template <class Payload, class Platform>
class alignas(64) timer_shard {
    enum class state : std::uint8_t { free, armed, due, running, in_transition };

public:
    struct entry : wheel_timer {
        entry() noexcept {}  // NOLINT(modernize-use-equals-default): the payload comes later
        ~entry() {}          // NOLINT(modernize-use-equals-default): and is destroyed before
        entry(const entry&) = delete;
        entry& operator=(const entry&) = delete;

        std::uint32_t turn = 0;
        state now = state::free;
        bool over = false;             // running, and cancelled meanwhile: it is not to run again
        bool trivial_destroy = false;  // nothing would be seen of the payload's destruction
        union {
            Payload payload;  // lives while the timer is armed, due or running
        };
    };
    using pool = slot_pool<entry>;
    using chunk_list = typename pool::chunk_list;
    using lock_type = typename Platform::lock;
    using running_scope = typename Platform::running_scope;

    /// The result of arm().
    struct arm_result {
        timer_id id;             // empty: closed, or else there is no free slot: adopt() a chunk
        tick news = never_tick;  // the deadline, if the waiter may have to know of it
        bool closed = false;     // no new timers
    };

    /// Does once a process what locks of this kind need.  Not under a lock: it takes the kernel
    /// time.
    static void prepare(shard_locks kind) noexcept {
        if constexpr (requires { lock_type::platform::prepare(); }) {
            if (kind == shard_locks::biased) lock_type::platform::prepare();
        }
    }

    /// Sets the time until the first collect(), the kind of lock, and the service that it is a
    /// shard of.  Precondition: no timer was armed yet.
    void start(tick now, shard_locks kind, const void* service) noexcept {
        service_ = service;
        if constexpr (requires { lock_.disable(); }) {
            if (kind == shard_locks::none) lock_.disable();
            if (kind == shard_locks::plain) lock_.disable_bias();
        }
        const lock_scope hold(lock_);
        wheel_.advance(now, [](entry&) {});
    }

    // ---- by any thread --------------------------------------------------------------------------

    /// Whether arm() by the thread of this number is most likely uncontended.
    [[nodiscard]] bool is_biased_to(unsigned self) const noexcept {
        if constexpr (requires { lock_.is_biased_to(self); }) {
            return lock_.is_biased_to(self);
        } else {
            return false;
        }
    }

    /// Arms a timer, by the thread of the number `self`: make(address) constructs its payload
    /// there, place(wheel, entry) puts it into the wheel.  Neither is called unless it succeeds,
    /// and neither throws.
    template <class Make, class Place>
    arm_result arm(unsigned self, Make&& make, Place&& place) noexcept {
        const lock_scope hold(lock_, self);
        entry* const e = pool_.take();
        if (e == nullptr) [[unlikely]]
            return not_armed();
        make(static_cast<void*>(std::addressof(e->payload)));
        e->trivial_destroy = has_trivial_destroy(e->payload);
        return link(*e, place);
    }

    /// The same for a make() that runs user code: it is called without the lock.
    template <class Make, class Place>
    [[gnu::noinline]] arm_result arm_unlocked(unsigned self, Make&& make, Place&& place) noexcept {
        entry* e = nullptr;
        {
            const lock_scope hold(lock_, self);
            e = pool_.take();
            if (e == nullptr) return not_armed();
            e->now = state::in_transition;
            ++in_transition_;
        }
        {
            const running_scope inside(service_, timer_id(pool::id_of(*e)));
            make(static_cast<void*>(std::addressof(e->payload)));
        }
        e->trivial_destroy = has_trivial_destroy(e->payload);
        arm_result result{{}, never_tick, true};
        bool has_waiters = false;
        {
            const lock_scope hold(lock_, self);
            if (closed_) {
                ++counters_.rejected;
            } else {
                --in_transition_;
                has_waiters = tell_waiters();
                result = link(*e, place);
            }
        }
        if (has_waiters) Platform::wake_all(ended_);
        if (result.closed) destroy_unlocked(*e);
        return result;
    }

    /// Ends a timer that has not begun, and destroys its payload outside the lock.  By the thread
    /// of the number `self`.
    cancel_result cancel(unsigned self, timer_id id, const slot_registry::record& record) noexcept {
        pool::prefetch(id.value(), record);
        lock_as(lock_, self);
        entry* const e = pool_.find(id.value(), record);
        if (e == nullptr || e->now >= state::running) [[unlikely]] {
            const bool runs = e != nullptr && e->now == state::running;
            if (runs) e->over = true;
            lock_.unlock();
            return runs ? cancel_result::running : cancel_result::gone;
        }
        ++counters_.cancelled;
        if (e->trivial_destroy) [[likely]] {  // no need to look at it at all
            discard(*e);
            lock_.unlock();
            return cancel_result::cancelled;
        }
        begin_transition(*e);
        lock_.unlock();
        destroy_unlocked(*e);
        return cancel_result::cancelled;
    }

    /// Waits until nothing of a timer is left: its callback has returned, or another thread that
    /// has cancelled or dropped it has destroyed the payload.  At once if it is armed or over.
    void wait_for(timer_id id) noexcept {
        for (;;) {
            std::uint32_t seen = 0;
            {
                const lock_scope hold(lock_);
                const entry* const e = pool_.find(id.value());
                if (e == nullptr || e->now < state::running) return;
                seen = expect_end();
            }
            Platform::wait_while(ended_, seen);
        }
    }

    /// Gives a timer that has not begun a new deadline.
    reschedule_result rearm(timer_id id, tick deadline, tick& news) noexcept {
        const lock_scope hold(lock_);
        entry* const e = pool_.find(id.value());
        if (e == nullptr || e->now == state::in_transition) return reschedule_result::gone;
        if (e->now == state::running) return reschedule_result::running;
        e->now = state::armed;
        wheel_.arm_at(*e, deadline);
        ++counters_.rescheduled;
        news = lower_nearest(e->deadline());
        return reschedule_result::pending;
    }

    [[nodiscard]] std::optional<tick> deadline_of(timer_id id) const noexcept {
        const lock_scope hold(lock_);
        const entry* const e = pool_.find(id.value());
        if (e == nullptr || e->now >= state::running) return std::nullopt;
        return e->deadline();
    }

    // ---- by the waiter --------------------------------------------------------------------------

    /// Takes what is due by `now` out of the wheel, in order, at most `room`.
    std::size_t collect(tick now, std::uint32_t own_number, due_timer* out,
                        std::size_t room) noexcept {
        const lock_scope hold(lock_);
        std::size_t count = 0;
        wheel_.advance(
            now,
            [&](entry& e) {
                e.now = state::due;
                ++e.turn;
                // The payload runs soon: prefetch its first and last byte.
                __builtin_prefetch(std::addressof(e.payload));
                __builtin_prefetch(reinterpret_cast<const char*>(std::addressof(e) + 1) - 1);
                out[count++] = {timer_id(pool::id_of(e)), e.deadline(), e.turn, own_number};
            },
            room);
        // relaxed: threads that lower it hold the lock, and the waiter is the caller.
        nearest_.store(wheel_.next_bound().value_or(never_tick), std::memory_order_relaxed);
        return count;
    }

    /// Raises nearest if the first timer was cancelled.  False if it has not changed.
    bool refresh_nearest() noexcept {
        const lock_scope hold(lock_);
        const tick bound = wheel_.next_bound().value_or(never_tick);
        // relaxed, twice: as in collect().
        if (bound <= nearest_.load(std::memory_order_relaxed)) return false;
        nearest_.store(bound, std::memory_order_relaxed);
        return true;
    }

    /// due -> running.  nullptr if it was cancelled, rearmed or dropped since it was collected.
    [[nodiscard]] entry* begin(const due_timer& due) noexcept {
        const lock_scope hold(lock_);
        return begin_locked(due);
    }

    /// running -> free.  Destroys the payload, before it takes the lock.
    void end(entry& e) noexcept {
        std::destroy_at(std::addressof(e.payload));
        bool has_waiters = false;
        {
            const lock_scope hold(lock_);
            has_waiters = end_locked(e);
        }
        if (has_waiters) Platform::wake_all(ended_);
    }

    /// end() of one and begin() of the next, under one lock.
    [[nodiscard]] entry* end_and_begin(entry& e, const due_timer& next) noexcept {
        std::destroy_at(std::addressof(e.payload));
        bool has_waiters = false;
        entry* begun = nullptr;
        {
            const lock_scope hold(lock_);
            has_waiters = end_locked(e);
            begun = begin_locked(next);
        }
        if (has_waiters) Platform::wake_all(ended_);
        return begun;
    }

    /// running -> armed.  False if it was cancelled meanwhile, or the shard is closed: then end()
    /// it. `armed_as` is set, under the lock, to the deadline that counts: it may be of the
    /// payload.
    [[nodiscard]] bool again(entry& e, tick deadline, tick& armed_as, tick& news) noexcept {
        bool has_waiters = false;
        {
            const lock_scope hold(lock_);
            if (e.over || closed_) return false;
            e.now = state::armed;
            wheel_.arm_at(e, deadline);
            armed_as = e.deadline();
            news = lower_nearest(e.deadline());
            has_waiters = count_end();
        }
        if (has_waiters) Platform::wake_all(ended_);
        return true;
    }

    /// due -> free, for a timer that its executor destroys without running.
    bool drop(const due_timer& due) noexcept {
        lock_.lock();
        entry* const e = find_due(due);
        if (e == nullptr) {
            lock_.unlock();
            return false;
        }
        ++counters_.dropped;
        begin_transition(*e);
        lock_.unlock();
        destroy_unlocked(*e);
        return true;
    }

    // ---- the end --------------------------------------------------------------------------------

    /// Arms nothing from now on, and destroys what is armed or due.
    void close() noexcept {
        {
            const lock_scope hold(lock_);
            closed_ = true;
            pool_.close();  // so that arm() need not look at closed_
        }
        typename pool::cursor at;
        for (bool more = true; more;) {
            entry* doomed = nullptr;
            {
                const lock_scope hold(lock_);
                // The lock is not held for longer than a few timers.
                for (int left = 64; left > 0 && doomed == nullptr; --left) {
                    entry* const e = pool_.next_in_use(at);
                    if (e == nullptr) {
                        more = false;
                        break;
                    }
                    if (e->now >= state::running) continue;
                    ++counters_.dropped;
                    if (e->trivial_destroy) {
                        discard(*e);
                        continue;
                    }
                    // One at a time: a thread is in transition with the timer that it is inside of,
                    // so that a destructor which waits for all others (T5) does not wait for
                    // itself.
                    begin_transition(*e);
                    doomed = e;
                }
                // relaxed: nothing is armed any more, so no sleep depends on it.
                if (!more) nearest_.store(never_tick, std::memory_order_relaxed);
            }
            if (doomed != nullptr) destroy_unlocked(*doomed);
        }
    }

    /// Waits until no callback is running and no payload is being moved or destroyed, except the
    /// caller's `own`.
    void wait_idle(std::size_t own) noexcept {
        for (;;) {
            std::uint32_t seen = 0;
            {
                const lock_scope hold(lock_);
                if (running_ + in_transition_ <= own) return;
                seen = expect_end();
            }
            Platform::wait_while(ended_, seen);
        }
    }

    // ---- the rest -------------------------------------------------------------------------------

    void adopt(chunk_list chunks) noexcept {
        const lock_scope hold(lock_);
        pool_.adopt(std::move(chunks));
    }

    /// For how many slots to make chunks, when there is none left.
    [[nodiscard]] std::size_t growth() const noexcept {
        const lock_scope hold(lock_);
        return pool_.growth();
    }

    /// The chunks that nothing uses, for the caller to destroy.
    [[nodiscard]] chunk_list trim() noexcept {
        const lock_scope hold(lock_);
        if (closed_) return {};  // close() may be on its way through the chunks
        return pool_.trim();
    }

    void add_stats(timer_stats& to) const noexcept {
        const lock_scope hold(lock_);
        to += counters_;
        to.pending += pool_.size() - running_ - in_transition_;
    }

    void count_rejected() noexcept {
        const lock_scope hold(lock_);
        ++counters_.rejected;
    }

    /// As the waiter reads it: see Memory orders above.
    [[nodiscard]] tick nearest() const noexcept {
        // seq_cst: after wake_at was stored; pairs with the store in lower_nearest().
        return nearest_.load(std::memory_order_seq_cst);
    }

private:
    entry* find_due(const due_timer& due) noexcept VERGE_REQUIRES(lock_) {
        entry* const e = pool_.find(due.id.value());
        return e != nullptr && e->now == state::due && e->turn == due.turn ? e : nullptr;
    }

    entry* begin_locked(const due_timer& due) noexcept VERGE_REQUIRES(lock_) {
        entry* const e = find_due(due);
        if (e == nullptr) return nullptr;
        e->now = state::running;
        ++running_;
        ++counters_.fired;
        return e;
    }

    bool end_locked(entry& e) noexcept VERGE_REQUIRES(lock_) {
        e.now = state::free;
        pool_.free(e);
        return count_end();
    }

    // Counts a callback as ended.  True if there are waiters, to be woken after the unlock.
    bool count_end() noexcept VERGE_REQUIRES(lock_) {
        --running_;
        return tell_waiters();
    }

    // running_ or in_transition_ has fallen.  True if there are waiters, as count_end().
    bool tell_waiters() noexcept VERGE_REQUIRES(lock_) {
        if (waiting_ == 0) return false;
        waiting_ = 0;  // all are woken; a waiter that must wait longer counts itself again
        // relaxed, twice: under the lock, and the kernel compares it when a waiter goes to sleep.
        ended_.store(ended_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return true;
    }

    // The result without a slot: none is free, or the shard is closed.
    arm_result not_armed() noexcept VERGE_REQUIRES(lock_) {
        if (!closed_) return {};
        ++counters_.rejected;
        return {{}, never_tick, true};
    }

    // -> armed.  Precondition: the payload is constructed.
    template <class Place>
    arm_result link(entry& e, Place& place) noexcept VERGE_REQUIRES(lock_) {
        e.now = state::armed;
        e.over = false;
        ++counters_.scheduled;
        const timer_id id(pool::id_of(e));
        place(wheel_, e);  // last: it may read the clock, which delays later instructions
        return {id, lower_nearest(e.deadline()), false};
    }

    // armed or due -> in_transition.  Then call destroy_unlocked() without the lock.
    void begin_transition(entry& e) noexcept VERGE_REQUIRES(lock_) {
        wheel_.cancel(e);
        e.now = state::in_transition;
        ++in_transition_;
    }

    // in_transition -> free.
    [[gnu::noinline]] void destroy_unlocked(entry& e) noexcept {
        {
            const running_scope inside(service_, timer_id(pool::id_of(e)));
            std::destroy_at(std::addressof(e.payload));
        }
        bool has_waiters = false;
        {
            const lock_scope hold(lock_);
            --in_transition_;
            e.now = state::free;
            pool_.free(e);
            has_waiters = tell_waiters();
        }
        if (has_waiters) Platform::wake_all(ended_);
    }

    // armed or due -> free, of a timer whose payload needs no destructor.
    void discard(entry& e) noexcept VERGE_REQUIRES(lock_) {
        wheel_.cancel(e);
        e.now = state::free;
        pool_.free(e);
    }

    tick lower_nearest(tick deadline) noexcept VERGE_REQUIRES(lock_) {
        // relaxed: it is written under the lock, which is held.
        if (deadline >= nearest_.load(std::memory_order_relaxed)) return never_tick;
        // seq_cst: before the load of wake_at; pairs with the load in nearest().
        nearest_.store(deadline, std::memory_order_seq_cst);
        return deadline;
    }

    std::uint32_t expect_end() noexcept VERGE_REQUIRES(lock_) {
        ++waiting_;
        // relaxed: under the lock.
        return ended_.load(std::memory_order_relaxed);
    }

    template <class T>
    using atomic = typename Platform::template atomic<T>;

    // In this order, arm() and cancel() touch two cache lines of the shard, and one of the wheel's
    // slots: threads that share a shard pay a cache miss for each line.
    mutable lock_type lock_;
    atomic<tick> nearest_{never_tick};
    bool closed_ VERGE_GUARDED_BY(lock_) = false;
    std::uint32_t waiting_ VERGE_GUARDED_BY(lock_) = 0;  // in wait_for() or wait_idle()
    timer_counters counters_ VERGE_GUARDED_BY(lock_);
    pool pool_ VERGE_GUARDED_BY(lock_){pool::unlimited, this};  // owner_of(id) is this shard
    // After the pool: destroyed first, so that it links no destroyed timer.
    timing_wheel<entry> wheel_ VERGE_GUARDED_BY(lock_);
    std::size_t running_ VERGE_GUARDED_BY(lock_) = 0;
    std::size_t in_transition_ VERGE_GUARDED_BY(lock_) = 0;
    const void* service_ = nullptr;   // written by start(); names the service in running scopes
    atomic<std::uint32_t> ended_{0};  // a futex: changes when a callback ends and has waiters
};

}  // namespace verge::detail::driver
