// verge/fibers/detail/run_queue.hpp -- one worker's FIFO queue of fibers that are ready to run.
//
//     | taken ... | head ... ready ... tail | free ... |      a ring of 1024
//                                           | older ... newer |      the overflow list
//
// The owner pushes at the tail and pops at the head; a thief takes half of the ring from the head,
// with one CAS.  What does not fit into the ring goes to the overflow list, and, to keep the order,
// so does everything that is pushed while that list is not empty.  The list has a lock; thieves may
// take from it, too.
//
// With at most one worker there is no thief: then the owner pops without a CAS.
//
// Invariants
//   Q1  Only the owner writes tail_ and the ring's places, and only places outside [head_, tail_).
//   Q2  head_ only grows, by a CAS (or a store, where there is no thief): the thread that moves it
//       from h to h + n owns the tasks in the places h ..  h + n - 1.
//   Q3  All tasks in the ring are older than all in the overflow list.
//   Q4  Indices have 64 bits and never wrap around, so that a CAS cannot succeed by mistake (ABA).
//   Q5  A task that moves from the list to the ring is in the ring before it has left the list.  A
//       reader loads the size of the list first: it misses nothing that was there all the time.
//
// Memory orders
//   tail_ is stored with release after the place was written; thieves load it with acquire: they
//   see the task.  head_ is moved with release after the places were read; the owner loads it with
//   acquire before it writes a place again.  That release also carries the tail_ that the mover has
//   read, so that no thread sees head_ beyond tail_.
//   Stores that precede a notification, and the last check of a worker that goes to sleep (empty(),
//   or a steal_for() that finds nothing), are seq_cst: see parking_lot.hpp.
//   tests/model/run_queue_model.cpp and parking_lot_model.cpp explore this source.

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

    /// Owner only.  `announced`: the caller then checks for sleeping workers, see parking_lot.hpp.
    void push(Task* task, bool announced = false) noexcept {
        // relaxed: the owner's own.
        const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
        // acquire: pairs with the release of the thread that moved it: the place has been read.
        if (tail - head_.load(std::memory_order_acquire) < Capacity && overflow_size() == 0)
            [[likely]] {
            place(tail).store(task, std::memory_order_relaxed);  // relaxed: tail_ publishes it
            if (announced) {
                publish(tail + 1);
            } else {
                // release: the place, and the task; pairs with the load in steal_for().
                tail_.store(tail + 1, std::memory_order_release);
            }
            return;
        }
        const verge::detail::lock_scope hold(lock_);
        overflow_.push(task);
        note_overflow();
    }

    /// Owner only, after pushes that were not announced and before a check for sleeping workers.
    void announce() noexcept {
        publish(tail_.load(std::memory_order_relaxed));  // relaxed: the owner's own
    }

    /// Pushes all, announced.  Owner only.
    void push_all(task_list<Task>& tasks) noexcept {
        if (overflow_size() == 0) fill_ring(tasks, Capacity);
        if (tasks.empty()) return;
        const verge::detail::lock_scope hold(lock_);
        overflow_.append(tasks);
        note_overflow();
    }

    /// The oldest; nullptr if there is none.  Owner only.
    [[nodiscard]] Task* pop() noexcept {
        for (;;) {
            // acquire: pairs with the release of the thief that moved it.  An owner that finds its
            // queue empty may write its places, as a thief of other queues.
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
            // release: tail_, for a thread that acquires this head_.  No acquire: the owner wrote
            // the place itself.  relaxed on failure: it is read again.
            if (head_.compare_exchange_strong(head, head + 1, std::memory_order_release,
                                              std::memory_order_relaxed)) {
                return task;
            }
        }
    }

    /// Takes half of what this queue has: one is returned, the rest goes to `thief`'s own queue,
    /// announced.  nullptr if there was nothing.  Called by the owner of `thief`, which must be
    /// empty: its pop() has returned nullptr.
    [[nodiscard]] Task* steal_for(run_queue& thief) noexcept {
        for (;;) {
            const std::size_t spilled = overflow_size();  // before the ring: see Q5
            if (Task* const task = steal_from_ring(thief)) return task;
            if (spilled == 0) return nullptr;
            if (Task* const task = steal_from_overflow(thief)) return task;
            // The owner, or another thief, was faster.
        }
    }

    /// Takes the oldest.  nullptr if it found nothing: it may miss what the owner moves from the
    /// list to the ring at this moment.  By any worker but the owner.
    [[nodiscard]] Task* steal_one() noexcept {
        for (;;) {
            // acquire, twice: as in steal_from_ring().
            std::uint64_t head = head_.load(std::memory_order_acquire);
            if (head == tail_.load(std::memory_order_acquire)) break;
            // relaxed: tail_ was acquired.
            Task* const task = place(head).load(std::memory_order_relaxed);
            // release, and relaxed on failure: as in steal_from_ring().
            if (head_.compare_exchange_strong(head, head + 1, std::memory_order_release,
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

    /// Whether it is empty; a hint, unless the owner calls it.
    [[nodiscard]] bool empty() const noexcept {
        // The list first: see Q5.
        if (overflow_size() != 0) return false;
        // relaxed: with a stale head_ it seems not empty, never empty.
        const std::uint64_t head = head_.load(std::memory_order_relaxed);
        // seq_cst: the last check of a worker that goes to sleep; pairs with publish().
        return head == tail_.load(std::memory_order_seq_cst);
    }

private:
    using atomic_size = typename Platform::template atomic<std::size_t>;
    using atomic_index = typename Platform::template atomic<std::uint64_t>;
    using atomic_task = typename Platform::template atomic<Task*>;

    [[nodiscard]] atomic_task& place(std::uint64_t index) noexcept {
        return ring_[index % Capacity];
    }

    // The places below `tail` are written.  Owner only.
    void publish(std::uint64_t tail) noexcept {
        if (shared_) {
            // seq_cst: before the check for sleepers; pairs with the loads in empty() and
            // steal_for().
            tail_.store(tail, std::memory_order_seq_cst);
        } else {
            tail_.store(tail, std::memory_order_relaxed);  // relaxed: no other thread reads it
        }
    }

    // Moves up to `most` tasks into the ring, as long as there is room.  Owner only.
    void fill_ring(task_list<Task>& tasks, std::size_t most) noexcept {
        // relaxed: the owner's own; acquire: as in push().
        std::uint64_t tail = tail_.load(std::memory_order_relaxed);
        const std::uint64_t end = head_.load(std::memory_order_acquire) + Capacity;
        for (; tail != end && most > 0 && !tasks.empty(); --most) {
            place(tail++).store(tasks.pop(), std::memory_order_relaxed);  // relaxed: as in push()
        }
        publish(tail);
    }

    [[nodiscard]] Task* steal_from_ring(run_queue& thief) noexcept {
        for (;;) {
            // acquire: pairs with the release of the mover: tail_ is not behind it.
            std::uint64_t head = head_.load(std::memory_order_acquire);
            // seq_cst: it may be the last check before a sleep; and acquires the places and the
            // tasks.
            const std::uint64_t tail = tail_.load(std::memory_order_seq_cst);
            // head may be stale, and the owner past it: then the CAS fails.
            const std::uint64_t there = tail - head;
            if (there == 0) return nullptr;
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
            // release: the places have been read, and tail_, for a thread that acquires this head_.
            // No acquire: head_ was acquired, and it is the same one (Q4).  relaxed on failure: it
            // is read again.
            if (!head_.compare_exchange_strong(head, head + take, std::memory_order_release,
                                               std::memory_order_relaxed)) {
                continue;
            }
            if (take > 1) thief.publish(own + take - 1);
            return first;
        }
    }

    [[nodiscard]] Task* steal_from_overflow(run_queue& thief) noexcept {
        task_list<Task> taken;
        {
            const verge::detail::lock_scope hold(lock_);
            std::size_t take = (overflow_.size() + 1) / 2;
            for (take = take > Capacity / 2 ? Capacity / 2 : take; take > 0; --take)
                taken.push(overflow_.pop());
            note_overflow();
        }
        Task* const first = taken.pop();
        if (!taken.empty()) thief.push_all(taken);
        return first;
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
        const verge::detail::lock_scope hold(lock_);
        if (overflow_.empty()) return false;
        fill_ring(overflow_, Capacity / 2);
        note_overflow();  // after the ring: see Q5
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
