// verge/io/detail/loop_timers.hpp -- the timers of a context on CLOCK_MONOTONIC.
//
// A timer is 32 bytes: a lock, the expiry, the id of its slot in the reactor's timer service, and
// its waits (timer_waits.hpp).  tests/unit/io/timer_test.cpp asserts that.
//
// Lazy slots.  Most waits are cancelled, and the next one of that timer is for later: a time-out a
// request.  So cancelling leaves the slot where it is, and the next wait uses it if it is armed for
// no later than the new expiry.  When the slot is due too early, it is armed anew for the expiry;
// when there are no waits, it ends.  So an arm and a cancel touch no shard at all, at the price of
// one spurious wake-up a timer, at the time the first of these waits was for.
//
// States of a timer, all changed under its own lock:
//   no slot  id is empty; no waits
//   slot     id names it; waits or none.  With waits and covered, it is armed for the expiry or
//            before.
//   listed   its expiry never comes: no slot, no place in a queue; waits or none.  It is in a list
//            of the service, from which the end of the context takes its waits.
//
// Invariants
//   LT1  The thread that takes waits out decides how they end (TW1): exactly one end.
//   LT2  The reactor looks at the waits only if the id it collected is still the timer's, and takes
//        them only if the expiry is not after the deadline that was due: never early.
//   LT3  When a timer is destroyed or moved, no thread holds its address: the slot was cancelled,
//        and a reactor that had begun it has ended it.  The reactor holds the address only between
//        begin() and end(), where it takes no user's lock.
//   LT4  A wait is counted as the loop's work from wait() until the loop has it in a queue.
//   LT5  A new expiry and the end of the waits for the old one are one change under the lock, so a
//        wait that begins at that moment in another thread is ended, or is for the new expiry.
//   LT6  A listed timer's id and expiry are the links of the list, which change under its lock;
//        with waits and expiry `never` a timer is listed.
// Locks: the timer's, then the list's, or the shard's and then (to set the timerfd) the reactor's.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/optional_lock.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/base/detail/thread_annotations.hpp>
#include <verge/base/timer_id.hpp>
#include <verge/driver/reactor.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/timer_list.hpp>
#include <verge/io/detail/timer_waits.hpp>
#include <verge/io/detail/wait_operation.hpp>
#include <verge/io/execution_context.hpp>

#include <cstddef>
#include <cstdint>

namespace verge::detail::io {

/// A timer of the service.  Not movable by itself: see loop_timers::move.
class loop_timer {
public:
    loop_timer() noexcept = default;
    ~loop_timer() = default;
    loop_timer(const loop_timer&) = delete;
    loop_timer& operator=(const loop_timer&) = delete;

private:
    friend class loop_timers;
    friend class timer_list<loop_timer>;
    [[nodiscard]] time_point expiry() const noexcept VERGE_REQUIRES(lock_) {
        return listed_ ? never : expiry_;
    }
    [[nodiscard]] timer_id id() const noexcept VERGE_REQUIRES(lock_) {
        return listed_ ? timer_id() : id_;
    }

    [[no_unique_address]] timer_waits waits_ VERGE_GUARDED_BY(lock_);
    // In the rest of its 16 bytes.  Covered: it is listed, or the slot is armed for no later than
    // the expiry.  Listed: the links are valid, and not expiry_ and id_.
    bool covered_ VERGE_GUARDED_BY(lock_) = false;
    bool listed_ VERGE_GUARDED_BY(lock_) = false;
    std::uint8_t slack_bits_ VERGE_GUARDED_BY(lock_) = 0;  // slack: 2^that nanoseconds; 0: none
    mutable spin_lock lock_;
    // Under lock_ as well, and the links also under the list's.  clang does not find the lock of a
    // member of an anonymous union; but all functions that use one require lock_.
    union {
        time_point expiry_ = {};
        loop_timer* next_;
    };
    union {
        timer_id id_ = {};
        loop_timer* prev_;
    };
};

class loop_timers final : public execution_context::service {
public:
    explicit loop_timers(execution_context& context);

    [[nodiscard]] static loop_timers& of(loop_core& loop);

    /// All of these may be called from any thread.
    std::size_t expires_at(loop_timer& timer, time_point expiry, duration slack) noexcept;
    [[nodiscard]] time_point expiry(const loop_timer& timer) const noexcept;
    std::size_t cancel(loop_timer& timer) noexcept;
    std::size_t cancel_one(loop_timer& timer) noexcept;
    /// Begins a wait.  Throws std::bad_alloc, and then it is not begun.
    void wait(loop_timer& timer, wait_operation* op, bool has_slot);
    /// Ends one wait, if it is there.
    void cancel(loop_timer& timer, wait_operation* op) noexcept;

    /// No other thread uses them: moves expiry and waits from one timer to another, which is new or
    /// was destroyed.
    void move(loop_timer& from, loop_timer& to) noexcept;
    /// No other thread uses it: ends its waits and gives up its slot.
    void destroy(loop_timer& timer) noexcept;

    [[nodiscard]] loop_core& loop() noexcept { return loop_; }
    [[nodiscard]] reactor& driver() noexcept { return reactor_; }

    /// Of the reactor: a timer's slot was due.
    static void expired(void* object, timer_id id, time_point deadline, void* sink);

private:
    void shutdown() override;
    [[nodiscard]] loop_timer* first_listed() noexcept;
    void set_expiry(loop_timer& timer, time_point expiry, duration slack) noexcept
        VERGE_REQUIRES(timer.lock_);
    [[gnu::noinline]] std::size_t end_and_expire_at(loop_timer& timer, time_point expiry,
                                                    duration slack) noexcept;
    [[gnu::cold]] void list(loop_timer& timer) noexcept VERGE_REQUIRES(timer.lock_);
    [[gnu::cold]] void unlist(loop_timer& timer) noexcept VERGE_REQUIRES(timer.lock_);
    [[nodiscard]] bool try_wait(loop_timer& timer, wait_operation* op, bool has_slot);
    [[nodiscard]] timer_id slot_of(loop_timer& timer) const noexcept;
    [[nodiscard]] bool arm(loop_timer& timer) VERGE_REQUIRES(timer.lock_);
    void disarm(timer_id id) noexcept;

    loop_core& loop_;
    reactor& reactor_;
    const bool locked_;    // not with concurrency_hint_unsafe: then no timer's lock is taken
    bool closed_ = false;  // by the destruction of the context, when no other thread uses it
    spin_lock list_lock_;
    timer_list<loop_timer> listed_ VERGE_GUARDED_BY(list_lock_);
};

}  // namespace verge::detail::io
