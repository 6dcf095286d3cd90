// verge/fibers/detail/remote_queue.hpp -- fibers made ready by threads that are not workers.
//
// Unbounded: a push never waits for a worker.  Any worker may take, and takes all at once, so the
// lock is held for a few instructions on either side.
//
// entered_ counts the threads that are still inside a push and the notification after it: the
// destruction of the scheduler waits for them.  It is incremented before the task is visible.
//
// Memory orders
//   size_ is stored with seq_cst under the lock; a worker that goes to sleep loads it last, see
//   parking_lot.hpp.  What the pusher wrote is ordered by the lock.
//   entered_ is decremented with release and read with acquire by the destruction of the queue.
//   tests/model/parking_lot_model.cpp explores this source.

#pragma once

#include <verge/fibers/detail/run_queue.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verge::fibers::detail {

template <class Task, class Platform = queue_platform>
class alignas(64) remote_queue {
public:
    /// Any thread.  Call leave() when the notification is done.
    void push(Task* task) noexcept {
        entered_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the lock below orders it
        const verge::detail::lock_scope hold(lock_);
        tasks_.push(task);
        ++pushed_;
        // seq_cst: before the check for sleepers; pairs with the load in empty().
        size_.store(tasks_.size(), std::memory_order_seq_cst);
    }

    void leave() noexcept {
        entered_.fetch_sub(1, std::memory_order_release);  // release: pairs with in_use()
    }

    [[nodiscard]] bool in_use() const noexcept {
        return entered_.load(std::memory_order_acquire) != 0;  // acquire: pairs with leave()
    }

    /// Moves all tasks to the end of `to`.
    void take_all(task_list<Task>& to) noexcept {
        if (empty()) return;
        const verge::detail::lock_scope hold(lock_);
        to.append(tasks_);
        // relaxed: the lock orders it with the pushes, and a reader of a stale size takes the lock.
        size_.store(0, std::memory_order_relaxed);
    }

    [[nodiscard]] bool empty() const noexcept {
        // seq_cst: the last check of a worker that goes to sleep.
        return size_.load(std::memory_order_seq_cst) == 0;
    }

    /// How many tasks were pushed so far.
    [[nodiscard]] std::uint64_t pushed() const noexcept {
        const verge::detail::lock_scope hold(lock_);
        return pushed_;
    }

private:
    mutable typename Platform::lock lock_;
    task_list<Task> tasks_ VERGE_GUARDED_BY(lock_);
    std::uint64_t pushed_ VERGE_GUARDED_BY(lock_) = 0;
    typename Platform::template atomic<std::size_t> size_{0};  // written under lock_
    typename Platform::template atomic<std::uint32_t> entered_{0};
};

}  // namespace verge::fibers::detail
