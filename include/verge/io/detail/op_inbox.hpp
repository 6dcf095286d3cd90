// verge/io/detail/op_inbox.hpp -- a lock-free queue by which other threads post operations to a
// loop.
//
// Many producers, one consumer.  A push is one compare-exchange, and the loop takes a whole batch
// by one exchange.  The word also settles which producer wakes the loop: the first one that pushes
// after fall_asleep().
//
// It is one word: a stack.  Each operation links to the one that was pushed before it, and take()
// reverses them.
//
// The loop may take an operation before the producer has woken it, run it as its last one, and be
// destroyed.  So a producer that is going to wake the loop counts itself first (latecomers), and
// the destruction of the loop waits until the count is 0.
//
// States of word_:
//   awake    empty; the loop checks the word before it sleeps, or no thread runs it
//   asleep   empty; the loop sleeps, or is about to: the next push is told to wake it
//   else     the operation that was pushed last. Some push was told to wake the loop, or the loop
//            checks the word before it sleeps.
// The lowest bit of an operation's link is set if the operation was announced as work, which ends
// when the loop takes it.
//
//     awake --fall_asleep()--> asleep --push()--> operations --take()--> awake
//       |                        +------take()------> awake      ^
//       +--------------------------push()------------------------+
//
// Invariants
//   OI1  Only take() changes the word from operations to anything else: none is lost.
//   OI2  Only the first push after fall_asleep() is told to wake the loop.
//   OI3  fall_asleep() fails if there are operations.
//   OI4  take() returns the operations in the order of the pushes.
//   OI5  Once its operation can be taken, a producer touches no memory of the loop unless it has
//       counted itself before.  Only a producer that has read `asleep` counts itself.
//
// Memory orders
//   push() releases, take() acquires: the loop sees what the producers wrote.  All changes are
//   read-modify-writes, so that it also sees what the producers before the last one wrote.
//   fall_asleep() is relaxed: the rest of the loop's sleep state is under the loop's lock, which
//   the waker takes.  enter() is relaxed: the store that makes the operation visible comes after
//   it and is a release, which publishes the count as well; so a thread that has seen the
//   operation, and destroys the loop, sees the count.  leave() releases, wait() acquires: the
//   destruction happens after everything that a counted thread did.
//   tests/model/io_loop_model.cpp explores it together with the loop.

#pragma once

#include <verge/base/detail/spin_lock.hpp>
#include <verge/io/detail/operation.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace verge::detail::io {

/// Counts the threads that have made something visible to a loop and will touch that loop once
/// more.
class latecomers {
public:
    /// To be called before the loop can see it.
    void enter() noexcept {
        // relaxed: see Memory orders.
        count_.fetch_add(1, std::memory_order_relaxed);
    }
    /// The thread's last access to the loop.
    void leave() noexcept {
        // release: pairs with the acquire in wait().
        count_.fetch_sub(1, std::memory_order_release);
    }
    /// For the destruction of the loop: returns when the count is 0.  Spins, then yields.
    void wait() const noexcept {
        // acquire: pairs with the release in leave().
        for (unsigned round = 0; count_.load(std::memory_order_acquire) != 0; ++round)
            spin_platform::give_way(round);
    }
    /// In the child of a fork, which has none of these threads.
    void forget() noexcept {
        // relaxed: the child has one thread.
        count_.store(0, std::memory_order_relaxed);
    }

private:
    std::atomic<std::ptrdiff_t> count_{0};
};

/// The queue.  See the top of this file.
class op_inbox {
public:
    /// Any thread.  True: the caller has to wake the loop, and then to call late.leave().
    [[nodiscard]] bool push(operation* op, latecomers& late) noexcept {
        return link(op, op, 0, late);
    }

    /// The same for all of `ops`, which must not be empty; they were announced as work.
    [[nodiscard]] bool push_announced(op_queue& ops, latecomers& late) noexcept {
        operation* const oldest = ops.pop();
        operation* newest = oldest;
        while (operation* const op = ops.pop()) {
            op->next_ = pointer(word(newest) | announced);
            newest = op;
        }
        return link(oldest, newest, announced, late);
    }

    /// Any thread, before a push: prefetches the word, which another processor may own.
    void expect_push() const noexcept { __builtin_prefetch(&word_, 1); }

    /// The loop, awake: appends all operations to `to`.  Returns how many of them were announced.
    std::ptrdiff_t take(op_queue& to) noexcept {
        // relaxed: checked before the exchange, so that an empty word stays in a producer's cache.
        if (word_.load(std::memory_order_relaxed) == awake) return 0;
        // acquire: pairs with the release in link().
        std::uintptr_t at = word_.exchange(awake, std::memory_order_acquire);
        operation* next = nullptr;
        operation* newest = to_operation(at);
        std::ptrdiff_t count = 0;
        while (operation* const op = to_operation(at)) {
            count += static_cast<std::ptrdiff_t>(at & announced);
            at = word(op->next_);
            op->next_ = next;
            next = op;
        }
        to.append(next, newest);
        return count;
    }

    [[nodiscard]] bool empty() const noexcept {
        // relaxed: a caller that must see a push is ordered after it by other means.
        return to_operation(word_.load(std::memory_order_relaxed)) == nullptr;
    }

    /// The loop, before it sleeps: the next push wakes it.  False if there are operations.
    [[nodiscard]] bool fall_asleep() noexcept {
        std::uintptr_t seen = awake;
        // relaxed: see Memory orders.
        return word_.compare_exchange_strong(seen, asleep, std::memory_order_relaxed,
                                             std::memory_order_relaxed) ||
               seen == asleep;
    }

private:
    static constexpr std::uintptr_t awake = 0;
    static constexpr std::uintptr_t asleep = 1;
    static constexpr std::uintptr_t announced = 1;

    static std::uintptr_t word(operation* op) noexcept {
        return reinterpret_cast<std::uintptr_t>(op);
    }
    static operation* pointer(std::uintptr_t word) noexcept {
        return reinterpret_cast<operation*>(word);
    }
    static operation* to_operation(std::uintptr_t word) noexcept {
        return pointer(word & ~announced);
    }

    bool link(operation* oldest, operation* newest, std::uintptr_t bit, latecomers& late) noexcept {
        bool counted = false;
        // relaxed: an address to link to; it is not dereferenced here.
        std::uintptr_t before = word_.load(std::memory_order_relaxed);
        do {
            if (before == asleep && !std::exchange(counted, true)) late.enter();
            oldest->next_ = pointer(before == asleep ? awake : before);
            // release: pairs with the acquire in take().  relaxed: as above.
        } while (!word_.compare_exchange_weak(before, word(newest) | bit, std::memory_order_release,
                                              std::memory_order_relaxed));
        if (before == asleep) return true;
        if (counted) late.leave();  // another push wakes it, or it woke by itself
        return false;
    }

    std::atomic<std::uintptr_t> word_{awake};
};

}  // namespace verge::detail::io
