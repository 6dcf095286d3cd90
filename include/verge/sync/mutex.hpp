// verge/sync/mutex.hpp -- mutual exclusion of fibers and threads.
//
//     verge::mutex mutex;
//
//     const std::lock_guard hold(mutex);                 // also std::unique_lock, std::scoped_lock
//
// A fiber that waits for it frees its worker; a plain thread sleeps in the kernel.  It may be held
// across waits, and unlocked on another thread than the one that locked it, if the fiber has moved.
// Not recursive: see recursive_mutex.hpp.  Not fair: a thread that finds it free takes it, even
// while others have been woken for it; waiters are woken in FIFO order.
//
// Guarantees, under the names of the tests that hold them
//   LetsOneInAtATime                   and each holder sees what the one before it wrote.
//   WakesWhoHasWaitedLongest           one for each unlock.
//   ATimedLockIsNeverEarly             false means that the deadline has passed.
//   AnInterruptDoesNotEndALock         it is kept for the next wait that can be interrupted.
//   ATimedWaiterPassesAWakeUpOn        a waiter that times out does not consume a wake-up.
//   MayBeDestroyedByWhoLocksItLast     unlock() accesses the memory once, by its exchange.
//
// States of word_
//
//     free --lock(), try_lock()--> held --unlock()--> free
//     any  --a lock that must wait, exchange--> contended --unlock(), which wakes one--> free
//
//   free       not held
//   held       held; its unlock need not wake a waiter
//   contended  held, and there may be waiters
//
// Invariants
//   M1  Only the thread or fiber whose CAS or exchange found `free` holds it, and only the holder
//       unlocks.
//   M2  While a waiter is linked to word_ and is not notified, word_ is `contended`, or a waiter
//       that was notified (or did not sleep yet) is about to exchange `contended` into it.  So a
//       lock that has waited once locks by that exchange, and never by the CAS.
//
// Memory orders
//   lock() acquires and unlock() releases: a holder sees what the one before it wrote.  That a
//   wake-up is not lost is the guarantee of wait(): unlock() changes the word, then notifies.
//
// Thread safety: all of it.  Size: 4 bytes; nothing allocates.
// Exceptions: the timed forms as wait(); then it is not locked.  Nothing else throws.

#pragma once

#include <verge/base/detail/assert.hpp>
#include <verge/sync/detail/deadline_in.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cstdint>

namespace verge {

class mutex {
public:
    constexpr mutex() noexcept = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;
    ~mutex() = default;

    void lock() noexcept {
        if (!try_lock()) [[unlikely]]
            lock_contended();
    }

    [[nodiscard]] bool try_lock() noexcept {
        std::uint32_t seen = free;
        // acquire: pairs with the release in unlock().  relaxed on failure: nothing is read.
        return word_.compare_exchange_strong(seen, held, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }

    /// False if it could not be locked before the deadline.
    [[nodiscard]] bool try_lock_until(time_point deadline) {
        return try_lock() || lock_contended_until(deadline);
    }
    template <detail::sync::delay Delay>
    [[nodiscard]] bool try_lock_for(Delay delay) {
        return try_lock() || lock_contended_until(detail::sync::deadline_in(delay));
    }

    /// Precondition: the caller holds it.
    void unlock() noexcept {
        // release: pairs with the acquire of the next lock.
        const std::uint32_t was = word_.exchange(free, std::memory_order_release);
        VERGE_ASSERT(was != free, "verge: unlock of a mutex that nobody holds");
        if (was == contended) [[unlikely]]
            notify_one(word_);  // by its address only: the next holder may have destroyed it
    }

private:
    friend class condition_variable;

    static constexpr std::uint32_t free = 0;
    static constexpr std::uint32_t held = 1;
    static constexpr std::uint32_t contended = 2;

    // For a caller that has waited, on word_ or in a condition variable (M2).
    void lock_contended() noexcept;
    bool lock_contended_until(time_point deadline);
    // For a condition variable that has moved waiters to word_: restores M2.
    void adopt_waiters() noexcept;

    // Written by threads that lock, wait and unlock.
    std::atomic<std::uint32_t> word_{free};
};

}  // namespace verge
