// verge/fibers/detail/parking_lot.hpp -- where idle workers sleep, and how work wakes them.
//
//     idle worker                                  whoever makes work
//       seen = lot.prepare();   // one more waits    queue.push(task);      // seq_cst
//       look through all queues once more            lot.notify();
//       found ? lot.leave() : lot.wait(seen)
//
// A notify() with nobody asleep costs two loads.  At most one worker is on its way at a time: while
// one is woken, or searches, nobody else is woken; when it has found something and there is more,
// it notifies in its turn.  So a burst of work wakes workers one by one, as long as there is work.
//
// Invariants
//   L1  waiters_ counts the workers between prepare() and leave().
//   L2  called_ is set only by notify(), when it wakes one, and cleared by every worker that leaves
//       or prepares: notify() may have seen a worker wait that left before it was called, and then
//       nobody comes.  A worker that leaves counts as searching before it clears it.
//   L3  A worker stops searching before its last look (prepare() comes after stop_searching()), or
//       with something found, or to end; and then looks whether there is more.
//
// Why no wake-up is lost.  notify() returns without waking in three cases.  Nobody waits: then
// whoever comes later looks after that, and sees the task (both sides store, then load, seq_cst).
// Somebody searches: it will find the task, or give up searching first and then look (L3). Somebody
// is called, and nobody has cleared called_ since: whoever prepared before that call is woken by
// it, or another in its place; that one leaves, clears called_ and then searches, after the task
// was pushed; whoever prepares later clears called_ and then looks, after the task was pushed.
//
// Memory orders
//   waiters_ and tasks, searching_ and tasks: each side stores, then loads, seq_cst.
//   called_ is changed by exchanges only: notify() releases the task, also if it was set already,
//   and who clears it acquires the tasks of all who relied on it.
//   epoch_ is changed with release and read with acquire: who has seen a change clears called_
//   after the call, and sees what was written before notify_all().
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
    /// Wakes a worker, if one sleeps and none is on its way.  After the work was made visible.
    /// Returns whether it woke one.
    bool notify() noexcept {
        // seq_cst, twice: after the task was published; pair with prepare() and stop_searching().
        if (waiters_.load(std::memory_order_seq_cst) == 0) return false;
        if (searching_.load(std::memory_order_seq_cst) != 0) return false;
        // release: the task, for who clears it.  not mutated: relacy runs seq_cst operations in the
        // order that they have for all, so that its looks see what was pushed before the exchange.
        if (called_.exchange(1, std::memory_order_release) != 0) return false;
        change_epoch();
        Platform::wake_one(epoch_);
        return true;
    }

    /// Wakes all, for the end.  Who wakes, or prepares later, sees what was written before.
    void notify_all() noexcept {
        change_epoch();
        Platform::wake_all(epoch_);
    }

    /// Announces that the caller is about to sleep.  It must look through all queues after this.
    [[nodiscard]] std::uint32_t prepare() noexcept {
        // acquire: pairs with change_epoch().
        const std::uint32_t seen = epoch_.load(std::memory_order_acquire);
        // seq_cst: before the last look; pairs with the load in notify().
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        // acquire: the tasks of all who relied on a call; pairs with notify().  See L2.
        // not mutated: as in notify().
        called_.exchange(0, std::memory_order_acquire);
        return seen;
    }

    /// Sleeps until somebody notifies, or `deadline`.  False at the deadline.
    bool wait(std::uint32_t seen, time_point deadline) noexcept {
        // acquire: pairs with change_epoch().  Any change since prepare() ends the sleep.
        while (epoch_.load(std::memory_order_acquire) == seen) {
            if (deadline != never && Platform::now() >= deadline) return false;
            Platform::wait(epoch_, seen, deadline);
        }
        return true;
    }

    /// The caller does not sleep any more, and searches.
    void leave() noexcept {
        // relaxed: an old number wakes one worker too many, no more.
        searching_.fetch_add(1, std::memory_order_relaxed);
        // relaxed: an old number only sends notify() on to its next question.
        waiters_.fetch_sub(1, std::memory_order_relaxed);
        // acquire: as in prepare().  not mutated: as in notify().
        called_.exchange(0, std::memory_order_acquire);
    }

    void start_searching() noexcept {
        searching_.fetch_add(1, std::memory_order_relaxed);  // relaxed: as in leave()
    }
    /// The caller must look through all queues after this: it prepares, or ends, or has found
    /// something; and notifies if there is work that it does not take.
    void stop_searching() noexcept {
        // seq_cst: before that look; pairs with the load in notify().  See L3.
        searching_.fetch_sub(1, std::memory_order_seq_cst);
    }

    /// How many workers sleep, or are about to.
    [[nodiscard]] std::uint32_t waiters() const noexcept {
        return waiters_.load(std::memory_order_relaxed);  // relaxed: a number to show
    }

private:
    using word = typename Platform::template atomic<std::uint32_t>;

    void change_epoch() noexcept {
        // release: pairs with prepare() and wait().
        epoch_.fetch_add(1, std::memory_order_release);
    }

    alignas(64) word epoch_{0};  // a futex: changes when somebody is to wake
    word waiters_{0};            // L1
    word searching_{0};          // workers that look for work
    word called_{0};             // L2
};

using parking_lot = basic_parking_lot<>;

}  // namespace verge::fibers::detail
