// verge/fibers/detail/parking_lot.hpp -- where idle workers sleep, and how new work wakes them.
//
//     idle worker                                  a thread that makes work
//       seen = lot.prepare();   // one more waits    queue.push(task);      // seq_cst
//       check all queues once more                   lot.notify();
//       found ? lot.leave() : lot.wait(seen)
//
// A notify() with no worker asleep costs two loads.  At most one worker is being woken at a time:
// while one is woken, or searches, no other is woken; when it has found something and there is
// more, it notifies in its turn.  So a burst of work wakes workers one by one, as long as there is
// work.
//
// Invariants
//   L1  waiters_ counts the workers between prepare() and leave().
//   L2  called_ is set only by notify(), when it wakes one, and cleared by every worker that leaves
//       or prepares: notify() may have counted a worker as waiting that left before it was called,
//       and then no worker wakes.  A worker that leaves counts as searching before it clears it.
//   L3  A worker stops searching before its last check (prepare() comes after stop_searching()), or
//       with something found, or to end; and then checks whether there is more.
//
// Why no wake-up is lost.  notify() returns without waking in three cases.
//   1.  No worker waits.  A worker that prepares later checks after that, and sees the task (both
//       sides store, then load, seq_cst).
//   2.  A worker searches.  It will find the task, or stop searching first and then check (L3).
//   3.  A worker was called, and called_ has not been cleared since.  A worker that prepared before
//       that call is woken by it, or another in its place; that one leaves, clears called_ and then
//       searches, after the task was pushed.  A worker that prepares later clears called_ and then
//       checks, after the task was pushed.
//
// Memory orders
//   waiters_ and tasks, searching_ and tasks: each side stores, then loads, seq_cst.
//   called_ is changed by exchanges only: notify() releases the task, also if called_ was set
//   already, and the worker that clears it acquires the tasks of all threads that relied on it.
//   epoch_ is changed with release and read with acquire: a worker that has seen a change clears
//   called_ after the call, and sees what was written before notify_all().
//   tests/model/parking_lot_model.cpp explores this source.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/parker.hpp>

#include <atomic>
#include <cstdint>

namespace verge::fibers::detail {

template <class Platform = futex_platform>
class basic_parking_lot {
public:
    /// Wakes a worker, if one sleeps and none is being woken.  Call it after the work was
    /// published. Returns whether it woke one.
    bool notify() noexcept {
        // seq_cst, twice: after the task was published; pair with prepare() and stop_searching().
        if (waiters_.load(std::memory_order_seq_cst) == 0) return false;
        if (searching_.load(std::memory_order_seq_cst) != 0) return false;
        // release: the task, for the worker that clears it.  not mutated: relacy runs seq_cst
        // operations in one total order, so that its checks see what was pushed before the
        // exchange.
        if (called_.exchange(1, std::memory_order_release) != 0) return false;
        change_epoch();
        Platform::wake_one(epoch_);
        return true;
    }

    /// Wakes all, for the end.  A worker that wakes, or prepares later, sees what was written
    /// before.
    void notify_all() noexcept {
        change_epoch();
        Platform::wake_all(epoch_);
    }

    /// Announces that the caller is about to sleep.  It must check all queues after this.
    [[nodiscard]] std::uint32_t prepare() noexcept {
        // acquire: pairs with change_epoch().
        const std::uint32_t seen = epoch_.load(std::memory_order_acquire);
        // seq_cst: before the last check; pairs with the load in notify().
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        // acquire: the tasks of all threads that relied on a call; pairs with notify().  See L2.
        // not mutated: as in notify().
        called_.exchange(0, std::memory_order_acquire);
        return seen;
    }

    /// Sleeps until a notify, or `deadline`.  False at the deadline.
    bool wait(std::uint32_t seen, time_point deadline) noexcept {
        // acquire: pairs with change_epoch().  Any change since prepare() ends the sleep.
        while (epoch_.load(std::memory_order_acquire) == seen) {
            if (deadline != never && Platform::now() >= deadline) return false;
            Platform::wait(epoch_, seen, deadline);
        }
        return true;
    }

    /// The caller is awake, and searches.
    void leave() noexcept {
        // relaxed: a stale value wakes at most one worker too many.
        searching_.fetch_add(1, std::memory_order_relaxed);
        // relaxed: a stale value only makes notify() go on to its next check.
        waiters_.fetch_sub(1, std::memory_order_relaxed);
        // acquire: as in prepare().  not mutated: as in notify().
        called_.exchange(0, std::memory_order_acquire);
    }

    void start_searching() noexcept {
        searching_.fetch_add(1, std::memory_order_relaxed);  // relaxed: as in leave()
    }
    /// The caller must check all queues after this: it prepares, or ends, or has found something;
    /// and notifies if there is work that it does not take.
    void stop_searching() noexcept {
        // seq_cst: before that check; pairs with the load in notify().  See L3.
        searching_.fetch_sub(1, std::memory_order_seq_cst);
    }

    /// How many workers sleep, or are about to.
    [[nodiscard]] std::uint32_t waiters() const noexcept {
        return waiters_.load(std::memory_order_relaxed);  // relaxed: for statistics
    }

private:
    using word = typename Platform::template atomic<std::uint32_t>;

    void change_epoch() noexcept {
        // release: pairs with prepare() and wait().
        epoch_.fetch_add(1, std::memory_order_release);
    }

    alignas(64) word epoch_{0};  // a futex: changes with every wake-up
    word waiters_{0};            // L1
    word searching_{0};          // workers that search for work
    word called_{0};             // L2
};

using parking_lot = basic_parking_lot<>;

}  // namespace verge::fibers::detail
