// verge/fiber/detail/run_queue.hpp -- one worker's fibers that are ready to run: first in, first
// out.
//
//     | taken ... | head ... ready ... tail | free ... |      a ring of 1024
//                                                              | older ... newer |   the overflow
//                                                              list
//
// The owner pushes at the tail and pops at the head; a thief takes half of the ring from the head,
// with one CAS.  What does not fit into the ring goes to the overflow list, and, to keep the order,
// so does everything that is pushed while there is something in that list.  The list has a lock;
// thieves may take from it too.
//
// Where there can be but one worker there is no thief: then the owner pops without a CAS.
//
// Invariants
//   Q1  Only the owner writes tail_ and the ring's places, and only places outside [head_, tail_).
//   Q2  head_ only grows, by a CAS (or a store, where there is no thief): who moves it from h to
//       h + n owns what stood in the places h .. h + n - 1.
//   Q3  All in the ring is older than all in the overflow list.
//   Q4  Indices have 64 bits and never come round, so that a CAS cannot succeed by mistake.
//
// Memory orders
//   tail_ is stored with release after the place was written; thieves load it with acquire: they
//   see the task.  head_ is moved with release after the places were read; the owner loads it with
//   acquire before it writes a place anew.  An announced push() and the last look of a worker that
//   goes to sleep are seq_cst: see parking_lot.hpp.  tests/model/run_queue_model.cpp explores this
//   source.

#pragma once

#include <verge/base/detail/spin_lock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verge::fibers::detail {

/// Tasks linked through `next`, first in, first out.  Owns nothing.
template <class Task>
class task_list {
public:
    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    void push(Task* task) noexcept {
        task->next = nullptr;
        (head_ == nullptr ? head_ : tail_->next) = task;
        tail_ = task;
        ++size_;
    }

    /// nullptr if it is empty.
    [[nodiscard]] Task* pop() noexcept {
        Task* const task = head_;
        if (task == nullptr) return nullptr;
        head_ = task->next;
        --size_;
        return task;
    }

    /// Appends all of `other`, which is empty then.
    void append(task_list& other) noexcept {
        if (other.head_ == nullptr) return;
        (head_ == nullptr ? head_ : tail_->next) = other.head_;
        tail_ = other.tail_;
        size_ += other.size_;
        other = {};
    }

private:
    Task* head_ = nullptr;
    Task* tail_ = nullptr;
    std::size_t size_ = 0;
};

struct queue_platform {
    template <class T>
    using atomic = std::atomic<T>;
    using lock = verge::detail::spin_lock;
};

template <class Task, class Platform = queue_platform, std::size_t Capacity = 1024>
class run_queue {
public:
    /// `shared`: other workers may steal from it.
    explicit run_queue(bool shared) noexcept : shared_(shared) {}

    /// Owner only.  `announced`: the caller then looks for sleeping workers, see parking_lot.hpp.
    void push(Task* task, bool announced = false) noexcept {
        // relaxed: the owner's own.
        const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
        // acquire: pairs with the release of who moved it: the place has been read.
        if (tail - head_.load(std::memory_order_acquire) < Capacity && overflow_size() == 0)
            [[likely]] {
            place(tail).store(task, std::memory_order_relaxed);  // relaxed: tail_ publishes it
            if (announced && shared_) {
                // seq_cst: before the look at who sleeps; pairs with the loads in empty().
                tail_.store(tail + 1, std::memory_order_seq_cst);
            } else {
                // release: the place, and the task; pairs with the acquire in steal_for().
                tail_.store(tail + 1, std::memory_order_release);
            }
            return;
        }
        const verge::detail::lock_scope hold(lock_);
        overflow_.push(task);
        note_overflow();
    }

    /// Owner only.
    void push_all(task_list<Task>& tasks) noexcept {
        while (overflow_size() == 0 && !tasks.empty() && has_room()) {
            Task* const task = tasks.pop();
            push(task, tasks.empty());  // announced with the last one
        }
        if (tasks.empty()) return;
        const verge::detail::lock_scope hold(lock_);
        overflow_.append(tasks);
        note_overflow();
    }

    /// The oldest; nullptr if there is none.  Owner only.
    [[nodiscard]] Task* pop() noexcept {
        for (;;) {
            // relaxed, and acquire: a thief moves it; see Q2.
            std::uint64_t head = head_.load(std::memory_order_acquire);
            // relaxed: the owner's own.
            if (head == tail_.load(std::memory_order_relaxed)) {
                if (overflow_size() == 0 || !refill()) return nullptr;
                continue;
            }
            // relaxed: the owner wrote it.
            Task* const task = place(head).load(std::memory_order_relaxed);
            if (!shared_) {
                head_.store(head + 1, std::memory_order_relaxed);  // relaxed: there is no thief
                return task;
            }
            // acq_rel: orders it after what thieves did; relaxed on failure: it is read again.
            if (head_.compare_exchange_strong(head, head + 1, std::memory_order_acq_rel,
                                              std::memory_order_relaxed)) {
                return task;
            }
        }
    }

    /// Takes half of what this queue has: one is returned, the rest goes to `thief`'s own queue.
    /// nullptr if there was nothing.  Called by the owner of `thief`, which must be empty.
    [[nodiscard]] Task* steal_for(run_queue& thief) noexcept {
        for (;;) {
            // acquire: before tail_ is read, and pairs with who moved it.
            std::uint64_t head = head_.load(std::memory_order_acquire);
            // seq_cst: pairs with the release in push(), the places are seen; and it is the last
            // look of a worker that goes to sleep.
            const std::uint64_t tail = tail_.load(std::memory_order_seq_cst);
            // head may be stale, and the owner past it: then the CAS fails.
            const std::uint64_t there = tail - head;
            if (there == 0) break;
            const std::uint64_t take = there > Capacity ? 1 : (there + 1) / 2;
            // relaxed: tail_ was acquired.
            Task* const first = place(head).load(std::memory_order_relaxed);
            // relaxed: the thief's own.
            const std::uint64_t own = thief.tail_.load(std::memory_order_relaxed);
            for (std::uint64_t i = 1; i < take; ++i) {
                // relaxed, twice: as above; published by the thief's tail_ below.
                thief.place(own + i - 1)
                    .store(place(head + i).load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
            }
            // acq_rel: releases that the places have been read, and orders it after the owner's
            // pops; relaxed on failure: it is read again.
            if (!head_.compare_exchange_strong(head, head + take, std::memory_order_acq_rel,
                                               std::memory_order_relaxed)) {
                continue;
            }
            // release: pairs with the acquire of those who steal from the thief.
            thief.tail_.store(own + take - 1, std::memory_order_release);
            return first;
        }
        if (overflow_size() == 0) return nullptr;
        task_list<Task> taken;
        {
            const verge::detail::lock_scope hold(lock_);
            std::size_t take = (overflow_.size() + 1) / 2;
            for (take = take > Capacity / 2 ? Capacity / 2 : take; take > 0; --take)
                taken.push(overflow_.pop());
            note_overflow();
        }
        Task* const first = taken.pop();
        thief.push_all(taken);
        return first;
    }

    /// Takes the oldest.  nullptr if there was nothing.  By any worker but the owner.
    [[nodiscard]] Task* steal_one() noexcept {
        for (;;) {
            // acquire, twice: as in steal_for().
            std::uint64_t head = head_.load(std::memory_order_acquire);
            if (head == tail_.load(std::memory_order_acquire)) break;
            // relaxed: tail_ was acquired.
            Task* const task = place(head).load(std::memory_order_relaxed);
            // acq_rel, and relaxed on failure: as in steal_for().
            if (head_.compare_exchange_strong(head, head + 1, std::memory_order_acq_rel,
                                              std::memory_order_relaxed)) {
                return task;
            }
        }
        if (overflow_size() == 0) return nullptr;
        const verge::detail::lock_scope hold(lock_);
        Task* const task = overflow_.pop();
        note_overflow();
        return task;
    }

    /// Whether there is nothing; a guess, unless the owner asks.
    [[nodiscard]] bool empty() const noexcept {
        // seq_cst, twice: a worker that goes to sleep looks here last; see parking_lot.hpp.
        return head_.load(std::memory_order_seq_cst) == tail_.load(std::memory_order_seq_cst) &&
               overflow_size() == 0;
    }

private:
    using atomic_size = typename Platform::template atomic<std::size_t>;
    using atomic_index = typename Platform::template atomic<std::uint64_t>;
    using atomic_task = typename Platform::template atomic<Task*>;

    [[nodiscard]] atomic_task& place(std::uint64_t index) noexcept {
        return ring_[index % Capacity];
    }

    [[nodiscard]] bool has_room() const noexcept {
        // relaxed: the owner's own; acquire: as in push().
        return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) <
               Capacity;
    }

    [[nodiscard]] std::size_t overflow_size() const noexcept {
        // seq_cst: as in empty().
        return overflow_count_.load(std::memory_order_seq_cst);
    }

    void note_overflow() noexcept VERGE_REQUIRES(lock_) {
        // seq_cst: as in empty().
        overflow_count_.store(overflow_.size(), std::memory_order_seq_cst);
    }

    // Fills the empty ring from the overflow list.  Owner only.  False if thieves were faster.
    bool refill() noexcept {
        task_list<Task> taken;
        {
            const verge::detail::lock_scope hold(lock_);
            while (taken.size() < Capacity / 2 && !overflow_.empty())
                taken.push(overflow_.pop());
            note_overflow();
        }
        if (taken.empty()) return false;
        // relaxed: the owner's own.
        std::uint64_t tail = tail_.load(std::memory_order_relaxed);
        while (Task* const task = taken.pop()) {
            place(tail++).store(task, std::memory_order_relaxed);  // relaxed: tail_ publishes it
        }
        tail_.store(tail, std::memory_order_release);  // release: as in push()
        return true;
    }

    const bool shared_;
    alignas(64) atomic_index head_{0};  // moved by the owner and by thieves
    alignas(64) atomic_index tail_{0};  // written by the owner
    atomic_size overflow_count_{0};     // written under lock_
    typename Platform::lock lock_;
    task_list<Task> overflow_ VERGE_GUARDED_BY(lock_);
    atomic_task ring_[Capacity] = {};  // written by the owner
};

}  // namespace verge::fibers::detail
