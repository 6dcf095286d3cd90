// verge/io/detail/timer_waits.hpp -- the pending waits of one timer, and how they end.
//
// Both kinds of timers have one: those on CLOCK_MONOTONIC (loop_timers.hpp) and those of clocks
// that may jump (clock_queue.hpp).  They differ in where a timer stands until its time comes, and
// in the lock that guards its waits.
//
// Invariants
//   TW1  A wait is in the list of one timer, or of none.  The thread that takes it out, under the
//        lock, decides how it ends: expired or aborted, exactly once.
//   TW2  A wait with a cancellation slot knows the timer that holds it (wait_place).  It is told
//        under the lock, and told nullptr when it is taken out: a cancellation that comes later
//        finds no timer.
//   TW3  Without a wait that has a slot, has_slots_ may be true; with one it is.
//
// Thread safety: none; the timer's lock, or the lock of its queue, guards it.

#pragma once

#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/operation.hpp>
#include <verge/io/detail/wait_operation.hpp>

#include <cstddef>
#include <utility>

namespace verge::detail::io {

enum class wait_end : bool { expired, aborted };

/// 8 bytes and a flag.  As a [[no_unique_address]] member it leaves the rest of the second 8 bytes
/// to the members that follow, so it is moved by take_over() only.
class timer_waits {
public:
    timer_waits() noexcept = default;
    ~timer_waits() = default;
    timer_waits(const timer_waits&) = delete;
    timer_waits& operator=(const timer_waits&) = delete;

    [[nodiscard]] bool empty() const noexcept { return ring_.empty(); }

    /// Adds a wait for `timer`, which this list belongs to.
    void push(wait_operation* op, bool has_slot, void* timer) noexcept {
        if (has_slot) {
            has_slots_ = true;
            op->set_owner(timer);
        }
        ring_.push(op);
    }

    /// Moves all to `to`, in order.  Returns how many.
    std::size_t take(op_queue& to, wait_end how) noexcept {
        if (std::exchange(has_slots_, false)) [[unlikely]] {
            ring_.for_each([](wait_operation& op) { op.set_owner(nullptr); });
        }
        std::size_t count = 0;
        while (wait_operation* const op = ring_.pop()) {
            if (how == wait_end::aborted) op->abort();
            to.push(op);
            ++count;
        }
        return count;
    }
    /// The same in the reactor's thread, which counts them.
    void take(ready_sink& to, wait_end how) noexcept {
        const std::size_t count = take(to.ready, how);
        to.count += count;
        to.finished += static_cast<std::ptrdiff_t>(count);
    }

    /// Aborts the oldest.  Returns how many: 0 or 1.
    std::size_t abort_first(op_queue& to) noexcept {
        wait_operation* const op = ring_.pop();
        if (op == nullptr) return 0;
        abort_taken(op, to);
        return 1;
    }
    /// Aborts this one, if it is here.
    std::size_t abort(wait_operation* op, op_queue& to) noexcept {
        if (!ring_.remove(op)) return 0;
        abort_taken(op, to);
        return 1;
    }

    /// Takes over all waits of another list.  Precondition: this one is empty.
    void take_over(timer_waits& from) noexcept {
        ring_ = std::exchange(from.ring_, {});
        has_slots_ = std::exchange(from.has_slots_, false);
    }
    /// Tells the waits that `timer` holds them now: after take_over().
    void set_owner(void* timer) noexcept {
        if (has_slots_) ring_.for_each([&](wait_operation& op) { op.set_owner(timer); });
    }

private:
    void abort_taken(wait_operation* op, op_queue& to) noexcept {
        if (has_slots_) op->set_owner(nullptr);
        op->abort();
        to.push(op);
    }

    wait_ring ring_;
    bool has_slots_ = false;
};

/// Ends waits from outside the reactor.  `take` moves them to the queue that it is given, under the
/// lock, and returns how many; they become ready after it has unlocked.
template <class Take>
std::size_t end_waits(loop_core& loop, Take&& take) {
    op_queue ended;
    const std::size_t count = take(ended);
    loop.post_announced(ended, static_cast<std::ptrdiff_t>(count));
    return count;
}

}  // namespace verge::detail::io
