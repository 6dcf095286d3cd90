// verge/fibers/detail/crew.hpp -- how many workers have a thread, and how a worker gives it up.
//
//     a thread that makes work                a worker that has been idle for long
//       queue.push(task);   // seq_cst          crew.let_go(lot, any_work) ? lot.notify(), and end
//       lot.notify();                                                      : keep searching
//       no worker waits, and crew.incomplete(): start one more
//
// Invariants
//   K1  A thread that makes work publishes it, then checks whether a worker waits, and then whether
//       one more could run.  A worker that ends decrements the count and stops searching, and then
//       checks for work.  So one more is started, or the worker that would have ended finds the
//       work.
//   K2  A thread that has ended is joined by an idle worker: it checks for one as for work, after
//       it has announced its sleep; and a worker that ends counts itself, then notifies.
//
// Memory orders
//   Both are a store followed by a load, on either side: seq_cst.  What is only written under the
//   scheduler's lock is relaxed.
//   tests/model/crew_model.cpp explores this source.

#pragma once

#include <atomic>
#include <cstddef>

namespace verge::fibers::detail {

struct crew_platform {
    template <class T>
    using atomic = std::atomic<T>;
};

template <class Platform = crew_platform>
class basic_crew {
public:
    /// A thread was started for a worker.  Under the lock.
    void count_in() noexcept {
        active_.fetch_add(1, std::memory_order_relaxed);  // relaxed: written under the lock
    }

    /// Whether fewer than `most` have one.  To be called after the work was published, if none
    /// waits.
    [[nodiscard]] bool incomplete(std::size_t most) const noexcept {
        // seq_cst: after the work was published; pairs with let_go() (K1).
        return active_.load(std::memory_order_seq_cst) < most;
    }

    /// A worker that searches is about to end.  Under the lock.  True: it has stopped searching,
    /// must be joined, and has to notify the lot.  False: there is work, and it searches again.
    template <class Lot, class AnyWork>
    [[nodiscard]] bool let_go(Lot& lot, AnyWork&& any_work) noexcept {
        // seq_cst: before the last check for work; pairs with incomplete() (K1).
        active_.fetch_sub(1, std::memory_order_seq_cst);
        // A thread that made work and saw it search has woken no worker: so it checks once more,
        // after it has stopped searching.
        lot.stop_searching();
        if (!any_work()) {
            // seq_cst: as published work, before the check for sleepers (K2).
            ended_.fetch_add(1, std::memory_order_seq_cst);
            return true;
        }
        lot.start_searching();
        count_in();
        return false;
    }

    /// Whether there are threads to be joined.
    [[nodiscard]] bool any_ended() const noexcept {
        return ended_.load(std::memory_order_seq_cst) != 0;  // seq_cst: after prepare() (K2)
    }

    /// One is joined.  Under the lock.
    void joined() noexcept {
        ended_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: written under the lock
    }

    /// How many threads there are, including those to be joined: for statistics.
    [[nodiscard]] std::size_t size() const noexcept {
        // relaxed, twice: numbers for statistics.
        return active_.load(std::memory_order_relaxed) + ended_.load(std::memory_order_relaxed);
    }

private:
    // Written under the scheduler's lock.
    typename Platform::template atomic<std::size_t> active_{0};  // workers with a thread
    typename Platform::template atomic<std::size_t> ended_{0};   // threads to be joined
};

using crew = basic_crew<>;

}  // namespace verge::fibers::detail
