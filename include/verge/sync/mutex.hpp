// verge/sync/mutex.hpp -- one fiber or thread at a time.
//
//     verge::mutex mutex;
//
//     const std::lock_guard hold(mutex);                 // also std::unique_lock, std::scoped_lock
//
// A fiber that waits for it leaves its worker free; a plain thread sleeps in the kernel.  It may be
// held across waits, and unlocked on another thread than the one that locked it, if the fiber has
// moved.  Not recursive: see recursive_mutex.hpp.  Not fair: who comes by when it is free takes it,
// though others are on their way; those who wait are woken first come, first served.
//
// Guarantees, under the names of the tests that hold them
//   LetsOneInAtATime                   and each sees what the last one wrote.
//   WakesWhoHasWaitedLongest           one for each unlock.
//   ATimedLockIsNeverEarly             false means that the deadline has passed.
//   AnInterruptDoesNotEndALock         it is kept for the next wait that can be interrupted.
//   ATimedWaiterPassesAWakeUpOn        one that gives up takes no wake-up with it.
//   MayBeDestroyedByWhoLocksItLast     unlock() touches the memory once, and then is done with it.
//
// States of word_
//
//     free --lock(), try_lock()--> held --unlock()--> free
//     any  --a lock that must wait, exchange--> contended --unlock(), which wakes one--> free
//
//   free       nobody holds it
//   held       held; whoever unlocks it need wake nobody
//   contended  held, and somebody may wait
//
// Invariants
//   M1  Only who found `free` by its own CAS or exchange holds it, and only the holder unlocks.
//   M2  While somebody waits on word_ and is not notified, then word_ is `contended`, or one that
//       was notified (or did not sleep yet) is about to exchange `contended` into it.  So whoever
//       was once made to wait locks by that exchange, and never by the CAS.
//
// Memory orders
//   lock() acquires and unlock() releases: what one holder wrote, the next one sees.
//   That a wake-up is not lost is wait()'s promise: unlock() changes the word, then notifies.
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

    // For those who have waited, on word_ or in a condition variable (M2).
    void lock_contended() noexcept;
    bool lock_contended_until(time_point deadline);
    // For a condition variable that has moved waiters to word_: restores M2.
    void adopt_waiters() noexcept;

    // Written by whoever locks, waits and unlocks.
    std::atomic<std::uint32_t> word_{free};
};

}  // namespace verge
