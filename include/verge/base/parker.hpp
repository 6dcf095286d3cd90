// verge/base/parker.hpp -- one thread sleeps until a deadline or until another thread wakes it.
//
//     verge::parker parker;                              // shared by the two threads
//     if (parker.park(deadline)) { /* woken: check for work */ } else { /* the deadline passed */ }
//     queue.push(work), parker.unpark();                 // the other thread
//
// It is for one owner that waits for an event or a deadline, such as a timer thread.
// It is not a mutex, a semaphore (wake-ups do not add up) or a condition for many waiters.
//
// Guarantees, under the names of the tests that hold them
//   AnUnparkBeforeParkEndsItAtOnce     a wake-up is stored while the owner is awake.
//   WakeUpsDoNotAddUp                  two unpark() before a park() store one.
//   NeverReturnsBeforeItsDeadline      false means that CLOCK_MONOTONIC has reached the deadline.
//   ASignalStormDoesNotShortenAWait    EINTR and spurious wake-ups are slept through.
//   LosesNoWakeUpToTheDeadline         a wake-up that races the deadline is reported or stored.
//
// States of word_, and the only transitions:
//
//     empty ----park()----> parked ----unpark()----> notified ----park() returns----> empty
//       |                      |                        ^
//       |                      +--deadline passed--> empty
//       +--------------------unpark()-------------------+
//
//   empty     no wake-up is stored and the owner is awake, or expire() has just ended its sleep
//   parked    the owner sleeps in the kernel, or is about to
//   notified  a wake-up is stored: the next park() returns at once
//
// Invariants
//   I1  Only the owner thread calls park(); any thread may call unpark().
//   I2  Wake-ups do not add up: two unpark() before a park() store one.
//   I3  word_ is `parked` only while the owner is inside park().
//
// Memory orders
//   unpark() writes word_ with release and park() reads it with acquire, so what a thread wrote
//   before unpark() is visible to the owner after the park() that it ended.  A parker orders
//   nothing else.  tests/model/parker_model.cpp explores the interleavings.
//
// Thread safety: as I1.  The parker must outlive every call to it.
// Exceptions: none.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstdint>

namespace verge {

/// The platform of a parker: an atomic template, a futex, and the clock of the futex's time-outs.
/// The model tests supply their own.
struct futex_platform {
    template <class T>
    using atomic = std::atomic<T>;

    /// Sleeps while `word == expected`, until woken or `deadline`.  May return early.
    static void wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     time_point deadline) noexcept;
    static void wake_one(std::atomic<std::uint32_t>& word) noexcept;
    static void wake_all(std::atomic<std::uint32_t>& word) noexcept;
    static time_point now() noexcept { return steady_source{}.now(); }
};

template <class Platform>
class basic_parker {
public:
    /// Sleeps until unpark() or `deadline`, whichever is first; at once if a wake-up is stored or
    /// the deadline has passed.  Returns true if an unpark() ended it, and false at the deadline.
    /// Owner thread only.
    [[nodiscard]] bool park(time_point deadline) noexcept {
        if (!enter()) return true;
        do {
            Platform::wait(word_, parked, deadline);
        } while (is_parked() && Platform::now() < deadline);
        return leave();
    }

    /// Wakes the owner, or makes its next park() return at once.  Any thread; never blocks.
    void unpark() noexcept {
        // release: pairs with the acquire exchanges in enter() and leave().
        if (word_.exchange(notified, std::memory_order_release) == parked) {
            Platform::wake_one(word_);
        }
    }

    // ---- The steps of park(), for another clock (manual_clock) ---------------------------------
    // The owner calls enter(); if that returns true, it registers with the clock, calls sleep(),
    // unregisters and calls leave().  The clock calls expire() in between, from any thread.

    /// Announces that the owner is about to sleep.  False if a wake-up was stored, which is now
    /// consumed.
    [[nodiscard]] bool enter() noexcept {
        std::uint32_t seen = empty;
        // relaxed: entering `parked` reads nothing that another thread wrote.
        if (word_.compare_exchange_strong(seen, parked, std::memory_order_relaxed,
                                          std::memory_order_relaxed)) {
            return true;
        }
        // It was `notified`.  An exchange, not a store, and acquire (pairs with unpark()): a second
        // unpark() may have come since the line above, and what it published must be visible too,
        // because its wake-up is consumed here as well (I2).  Model test: loses_no_wakeup.
        word_.exchange(empty, std::memory_order_acquire);
        return false;
    }

    /// Sleeps until unpark() or expire().
    void sleep() noexcept {
        while (is_parked())
            Platform::wait(word_, parked, never);
    }

    /// Announces that the owner is awake.  True if a wake-up came, which is now consumed.
    [[nodiscard]] bool leave() noexcept {
        // acquire: pairs with the release in unpark().  One exchange also settles the race between
        // deadline and wake-up: a wake-up is reported here, or it comes later and stays stored.
        return word_.exchange(empty, std::memory_order_acquire) == notified;
    }

    /// Ends sleep() as a deadline would: stores no wake-up, and hides none.
    void expire() noexcept {
        std::uint32_t seen = parked;
        // relaxed: publishes nothing; a caller that publishes data orders it by other means.
        if (word_.compare_exchange_strong(seen, empty, std::memory_order_relaxed,
                                          std::memory_order_relaxed)) {
            Platform::wake_one(word_);
        }
    }

    /// Whether the owner is between enter() and what ends its sleep.
    [[nodiscard]] bool is_parked() const noexcept {
        // relaxed: only decides whether to sleep again; the exchange in leave() synchronizes.
        return word_.load(std::memory_order_relaxed) == parked;
    }

private:
    static constexpr std::uint32_t empty = 0;
    static constexpr std::uint32_t parked = 1;
    static constexpr std::uint32_t notified = 2;

    // Written by the owner (empty, parked), wakers (notified) and its clock (parked to empty).
    typename Platform::template atomic<std::uint32_t> word_{empty};
};

using parker = basic_parker<futex_platform>;

}  // namespace verge
