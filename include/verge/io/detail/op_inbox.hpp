// verge/io/detail/op_inbox.hpp -- how operations get into a loop from outside, without a lock.
//
// Any thread pushes, and the loop takes all at once: one compare-exchange each, and one exchange a
// batch.  It also settles who wakes the loop: of all who push while it sleeps, the first one.
//
// One word.  Each operation links to the one that was pushed before it; the loop turns them round.
//
// The loop may find an operation before it is woken, run it as its last one, and be destroyed.  So
// who is to wake it counts itself first (latecomers), and the loop's end waits for that.
//
// States of word_:
//   awake    empty; the loop looks here before it sleeps, or nobody runs it
//   asleep   empty; the loop sleeps, or is about to: who pushes next wakes it
//   else     the operation that was pushed last.  Somebody has been told to wake the loop, or it
//            looks here before it sleeps.
// The lowest bit of an operation's link says that the operation was announced as work, which ends
// when the loop takes it.
//
//     awake --fall_asleep()--> asleep --push()--> operations --take()--> awake
//       |                        +------take()------> awake      ^
//       +--------------------------push()------------------------+
//
// Invariants
//   B1  The word gets from operations to anything else by take() only: none is lost.
//   B2  It gets from asleep to operations once a sleep, and who did it is told to wake the loop.
//   B3  fall_asleep() fails if there are operations.
//   B4  take() gives the operations in the order of the pushes.
//   B5  Who pushes touches nothing but its own once its operation can be taken, unless it has
//       counted itself before.  Only who has seen `asleep` does.
//
// Memory orders
//   push() releases, take() acquires: the loop sees what the pushers wrote.  All changes are
//   read-modify-writes, so it sees that of those before the last one as well.  fall_asleep() is
//   relaxed: what the loop says about its sleep besides is under the loop's lock, which the
//   waker takes.  enter() is relaxed: what makes something visible after it is a release, which
//   publishes the count as well; so who has seen that thing, and ends the loop, finds the count.
//   leave() releases, wait() acquires: the end comes after all that was counted.
//   tests/model/io_loop_model.cpp explores it with the loop around it.

#pragma once

#include <verge/base/detail/spin_lock.hpp>
#include <verge/io/detail/operation.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace verge::detail::io {

/// The threads that have shown something to a loop, and touch that loop once more.
class latecomers {
public:
    /// Before the loop can see it.
    void enter() noexcept {
        // relaxed: see Memory orders.
        count_.fetch_add(1, std::memory_order_relaxed);
    }
    /// The last touch.
    void leave() noexcept {
        // release: pairs with the acquire in wait().
        count_.fetch_sub(1, std::memory_order_release);
    }
    /// The end of the loop: returns when nobody is left.
    void wait() const noexcept {
        // acquire: pairs with the release in leave().
        for (unsigned round = 0; count_.load(std::memory_order_acquire) != 0; ++round)
            spin_platform::give_way(round);
    }
    /// In the child of a fork, where the others are not.
    void forget() noexcept {
        // relaxed: nobody else is here.
        count_.store(0, std::memory_order_relaxed);
    }

private:
    std::atomic<std::ptrdiff_t> count_{0};
};

class op_inbox {
public:
    /// Any thread.  True: the caller has to wake the loop, and then to leave `late`.
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

    /// Any thread, some time before a push: another processor may have the word.
    void expect_push() const noexcept { __builtin_prefetch(&word_, 1); }

    /// The loop, awake: moves all behind what is in `to`.  Returns how many of them were announced.
    std::ptrdiff_t take(op_queue& to) noexcept {
        // relaxed: a look before the exchange, which keeps the cache line with who pushes.
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
        // relaxed: who must see a push has another order with who pushed.
        return to_operation(word_.load(std::memory_order_relaxed)) == nullptr;
    }

    /// The loop, before it sleeps: says that it has to be woken.  False if there are operations.
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
        // relaxed: an address to link to; nothing is read through it here.
        std::uintptr_t before = word_.load(std::memory_order_relaxed);
        do {
            if (before == asleep && !std::exchange(counted, true)) late.enter();
            oldest->next_ = pointer(before == asleep ? awake : before);
            // release: pairs with the acquire in take().  relaxed: as above.
        } while (!word_.compare_exchange_weak(before, word(newest) | bit, std::memory_order_release,
                                              std::memory_order_relaxed));
        if (before == asleep) return true;
        if (counted) late.leave();  // another one wakes it, or it woke by itself
        return false;
    }

    std::atomic<std::uintptr_t> word_{awake};
};

}  // namespace verge::detail::io
