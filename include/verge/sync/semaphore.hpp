// verge/sync/semaphore.hpp -- a number of permits; an acquire that finds none waits for one.
//
//     verge::semaphore slots(8);                 // at most 8 at once
//
//     if (slots.acquire() != wait_result::notified) return;   // interrupted, or stopped
//     work();
//     slots.release();
//
// It is for limits, and for counting available items.  Not fair: a thread that finds a permit takes
// it, even while others have been woken; waiters are woken in FIFO order.
//
// Guarantees, under the names of the tests that hold them
//   GivesOutNoMoreThanItHas            and an acquire sees what was written before the release().
//   LosesNoRelease                     no waiter sleeps while there are permits.
//   WakesWhoHasWaitedLongest
//   ATimedAcquireIsNeverEarly
//   AnInterruptEndsAnAcquire           and takes no permit.
//   MayBeDestroyedByWhoAcquiresLast    release() accesses the memory once.
//
// States of word_ {waiters, count}
//
//   count    how many permits there are
//   waiters  there may be waiters: release() clears the bit and wakes as many as it adds permits
//
// Invariants
//   SE1  A thread waits only on word_ = {waiters, 0}.
//   SE2  A waiter that was woken takes a permit and sets `waiters`, since there may be others.
//   SE3  If others may wait, and a permit is left after SE2, it wakes one more.  That covers a
//        second release() that came before the first one's waiter was awake, and so found no
//        `waiters`.  The wake-up may be spurious: that waiter then waits again, behind the others.
//
// Memory orders
//   release() releases, an acquire that takes a permit acquires.  Every write is a
//   read-modify-write: a permit carries what all releases before it published.
//
// Thread safety: all of it.  Size: 4 bytes; nothing allocates.
// Exceptions: the timed forms as wait(); then nothing is acquired.  Nothing else throws.

#pragma once

#include <verge/base/detail/assert.hpp>
#include <verge/sync/detail/deadline_in.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cstdint>

namespace verge {

class semaphore {
public:
    /// The most permits that there can be.
    static constexpr std::uint32_t max = (1U << 31) - 1;

    /// Precondition: count <= max.
    constexpr explicit semaphore(std::uint32_t count) noexcept : word_(count) {
        VERGE_ASSERT(count <= max, "verge: a semaphore with too many permits");
    }
    semaphore(const semaphore&) = delete;
    semaphore& operator=(const semaphore&) = delete;
    ~semaphore() = default;

    /// Adds permits.  Precondition: there are no more than max then.
    void release(std::uint32_t n = 1) noexcept;

    /// Takes a permit.  Returns notified or interrupted; those with a deadline also
    /// timed_out.  Only `notified` has a permit.
    [[nodiscard]] wait_result acquire() { return acquire_until(never); }
    [[nodiscard]] wait_result acquire_until(time_point deadline) {
        return try_acquire() ? wait_result::notified : acquire_waiting(deadline);
    }
    template <detail::sync::delay Delay>
    [[nodiscard]] wait_result acquire_for(Delay delay) {
        return try_acquire() ? wait_result::notified
                             : acquire_waiting(detail::sync::deadline_in(delay));
    }

    /// Takes a permit if there is one.
    [[nodiscard]] bool try_acquire() noexcept {
        // relaxed: the CAS below decides.
        std::uint32_t seen = word_.load(std::memory_order_relaxed);
        while ((seen & ~waiters) != 0) {
            // acquire: pairs with the release in release().  relaxed on failure: read again.
            if (word_.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
        return false;
    }

    /// How many permits there are at this moment.
    [[nodiscard]] std::uint32_t available() const noexcept {
        // relaxed: a number, which may be outdated when it is used.
        return word_.load(std::memory_order_relaxed) & ~waiters;
    }

private:
    static constexpr std::uint32_t waiters = 1U << 31;

    wait_result acquire_waiting(time_point deadline);

    // Written by threads that acquire and release.
    std::atomic<std::uint32_t> word_;
};

}  // namespace verge
