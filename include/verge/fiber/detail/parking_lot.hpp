// verge/fiber/detail/parking_lot.hpp -- where idle workers sleep, and how work wakes them.
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
//   L2  called_ is set only by notify(), before it changes the epoch, and cleared by every worker
//       that enters or leaves; one that leaves counts as searching before it clears it.
//   L3  A worker stops searching before its last look (prepare() comes after stop_searching()), or
//       with something found, and then looks whether there is more.
//
// Why no wake-up is lost.  notify() returns without waking in three cases.
//   Nobody waits: whoever comes later looks after that, and sees the task (both sides store, then
//   load, seq_cst).
//   Somebody searches: it finds the task, or gives up searching first and then looks (L3).
//   Somebody is called: whoever clears called_ after that looks after that, and sees the task.  And
//   somebody does: a worker that waited when called_ was set is woken by the new epoch, or had left
//   before it changed; who enters later clears it before its last look.
//
// Memory orders: seq_cst on all words: the argument above is about one order of all of them.
// tests/model/parking_lot_model.cpp explores this source.

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
        // seq_cst, three times: after the task was published; see the head of this file.
        if (waiters_.load(std::memory_order_seq_cst) == 0) return false;
        if (searching_.load(std::memory_order_seq_cst) != 0) return false;
        if (called_.exchange(1, std::memory_order_seq_cst) != 0) return false;
        epoch_.fetch_add(1, std::memory_order_seq_cst);  // seq_cst: before the wake, as above
        Platform::wake_one(epoch_);
        return true;
    }

    /// Wakes all, for the end.
    void notify_all() noexcept {
        epoch_.fetch_add(1, std::memory_order_seq_cst);  // seq_cst: as in notify()
        Platform::wake_all(epoch_);
    }

    /// Announces that the caller is about to sleep.  It must look through all queues after this.
    [[nodiscard]] std::uint32_t prepare() noexcept {
        // seq_cst, three times: in this order, and before the last look.
        const std::uint32_t seen = epoch_.load(std::memory_order_seq_cst);
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        called_.store(0, std::memory_order_seq_cst);
        return seen;
    }

    /// Sleeps until somebody notifies, or `deadline`.  False at the deadline.
    bool wait(std::uint32_t seen, time_point deadline) noexcept {
        // seq_cst: any change since prepare() ends the sleep.
        while (epoch_.load(std::memory_order_seq_cst) == seen) {
            if (deadline != never && Platform::now() >= deadline) return false;
            Platform::wait(epoch_, seen, deadline);
        }
        return true;
    }

    /// The caller does not sleep any more, and searches.
    void leave() noexcept {
        // seq_cst, three times: in this order; see L2.
        searching_.fetch_add(1, std::memory_order_seq_cst);
        waiters_.fetch_sub(1, std::memory_order_seq_cst);
        called_.store(0, std::memory_order_seq_cst);
    }

    void start_searching() noexcept {
        searching_.fetch_add(1, std::memory_order_seq_cst);  // seq_cst: as in leave()
    }
    void stop_searching() noexcept {
        searching_.fetch_sub(1, std::memory_order_seq_cst);  // seq_cst: before the last look; L3
    }

    /// How many workers sleep, or are about to.
    [[nodiscard]] std::uint32_t waiters() const noexcept {
        return waiters_.load(std::memory_order_relaxed);  // relaxed: a number to show
    }

private:
    using word = typename Platform::template atomic<std::uint32_t>;

    alignas(64) word epoch_{0};  // a futex: changes when somebody is to wake
    word waiters_{0};            // L1
    word searching_{0};          // workers that look for work
    word called_{0};             // L2
};

using parking_lot = basic_parking_lot<>;

}  // namespace verge::fibers::detail
