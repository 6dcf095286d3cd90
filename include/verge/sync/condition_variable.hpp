// verge/sync/condition_variable.hpp -- wait, with a mutex held, until something has changed.
//
//     verge::mutex mutex;
//     verge::condition_variable changed;
//
//     std::unique_lock lock(mutex);
//     if (changed.wait_for(lock, 1s, [&] { return !items.empty(); }) == wait_result::notified) ...
//
//     { const std::lock_guard hold(mutex); items.push_back(x); }
//     changed.notify_one();
//
// As std::condition_variable, for fibers and threads alike, with a result that reports why the wait
// ended.  An interrupt ends it, too; the mutex is held again in every case, also when the wait
// throws.  It works with verge::mutex only, and at any one time with one mutex.  Not for one flag
// or one number: see event.hpp, latch.hpp, semaphore.hpp.
//
// A wait may return `notified` spuriously: wait in a loop, or with a predicate.
//
// Guarantees, under the names of the tests that hold them
//   LosesNoNotify                      a change under the mutex, then a notify, wakes a waiter.
//   NotifyOneWakesWhoHasWaitedLongest
//   NotifyAllWakesAllOneAfterAnother   waiters are moved to the mutex: no thundering herd.
//   TheMutexIsHeldOnEveryReturn
//   ATimedWaitIsNeverEarly             `timed_out` means that the deadline has passed.
//   AnInterruptEndsAWait               also one that came before the wait.
//   MayBeDestroyedOnceAllAreNotified   waiters need not have returned, the notifying call must
//                                      have.
//
// States of word_: it counts the changes of mutex_, and is compared only by notify_all().
//
// Invariants
//   C1  A waiter is linked to word_ before it unlocks the mutex, and does not touch this object
//       after that.
//   C2  mutex_ is written under that mutex, before word_, while no waiter uses another one.  So a
//       waiter that is linked to word_ while word_ has a value waits with the mutex of that value.
//   C3  Waiters that were moved to the mutex's word lock it as a contended waiter does (mutex.hpp,
//       M2).  Others lock it by the fast path: then its unlock need not check for waiters.
//
// Memory orders
//   word_ is written with release after mutex_ and read with acquire before it: a thread that reads
//   a value reads its mutex, or a later one, and then requeue() finds word_ changed.  What the
//   mutex guards is ordered by the mutex.
//
// Thread safety: all of it.  Size: 16 bytes; nothing allocates.  The mutex must outlive the waits
// and every notify_all() that was called while they lasted.
// Exceptions: the timed forms as wait(), and what the predicate throws; the mutex is held then.

#pragma once

#include <verge/sync/mutex.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <utility>

namespace verge {

namespace detail::sync {
/// What a condition variable needs of std::unique_lock<mutex>, without <mutex>.
template <class T>
concept lock_of_mutex = requires(T& lock) {
    { lock.mutex() } -> std::same_as<mutex*>;
    { lock.owns_lock() } -> std::same_as<bool>;
};
}  // namespace detail::sync

class condition_variable {
public:
    constexpr condition_variable() noexcept = default;
    condition_variable(const condition_variable&) = delete;
    condition_variable& operator=(const condition_variable&) = delete;
    ~condition_variable() = default;

    /// Wakes the waiter that has waited longest; all waiters.
    void notify_one() noexcept { verge::notify_one(word_); }
    void notify_all() noexcept;

    /// Unlocks, waits, locks again.  Returns notified or interrupted; the form with a deadline
    /// also timed_out.  Precondition: the lock is held.
    template <detail::sync::lock_of_mutex Lock>
    wait_result wait(Lock& lock) {
        return wait_until(lock, never);
    }
    template <detail::sync::lock_of_mutex Lock>
    [[nodiscard]] wait_result wait_until(Lock& lock, time_point deadline) {
        VERGE_ASSERT(lock.owns_lock(), "verge: a condition_variable needs a lock that is held");
        return wait_with(*lock.mutex(), deadline);
    }
    template <detail::sync::lock_of_mutex Lock, detail::sync::delay Delay>
    [[nodiscard]] wait_result wait_for(Lock& lock, Delay delay) {
        return wait_until(lock, detail::sync::deadline_in(delay));
    }

    /// Waits until `done()`, which is called with the mutex held.  `notified` means that it is
    /// true, `timed_out` that it was not at the deadline; interrupted ends it in either case.
    template <detail::sync::lock_of_mutex Lock, std::predicate Done>
    [[nodiscard]] wait_result wait(Lock& lock, Done done) {
        return wait_until(lock, never, std::move(done));
    }
    template <detail::sync::lock_of_mutex Lock, std::predicate Done>
    [[nodiscard]] wait_result wait_until(Lock& lock, time_point deadline, Done done) {
        while (!done()) {
            const wait_result why = wait_until(lock, deadline);
            if (why == wait_result::timed_out) return done() ? wait_result::notified : why;
            if (why != wait_result::notified) return why;
        }
        return wait_result::notified;
    }
    template <detail::sync::lock_of_mutex Lock, detail::sync::delay Delay, std::predicate Done>
    [[nodiscard]] wait_result wait_for(Lock& lock, Delay delay, Done done) {
        return wait_until(lock, detail::sync::deadline_in(delay), std::move(done));
    }

private:
    wait_result wait_with(mutex& held, time_point deadline);

    // Both written by waiters, under the mutex they wait with.
    std::atomic<std::uint32_t> word_{0};
    std::atomic<mutex*> mutex_{nullptr};
};

}  // namespace verge
