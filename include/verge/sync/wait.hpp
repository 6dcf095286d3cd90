// verge/sync/wait.hpp -- wait on a word until it is notified: the primitive below all of sync/.
//
//     std::atomic<std::uint32_t> open{0};
//
//     while (open.load() == 0) verge::wait(open, 0);           // a fiber, or a thread
//
//     open.store(1);
//     verge::notify_all(open);                                 // any thread or fiber
//
// It is a futex for fibers and threads alike: a fiber that waits frees its worker, a plain thread
// sleeps in the kernel.  It is for authors of synchronisation primitives.  Not for code that can
// use a mutex, an event or a semaphore.
//
// Only the address of the word identifies it: a word may be anywhere, and costs nothing while no
// thread waits on it.  Waiters of one word are woken in FIFO order.
//
// Guarantees, under the names of the tests that hold them
//   LosesNoWakeUp            a change of the word, then a notify: a waiter that saw the old value
//                            wakes.
//   ReturnsAtItsDeadline     and never before it.
//   AnInterruptEndsAWait     also one that came before the wait.
//   AStopUnwinds             by forced_unwind: verge/sync/cancellation.hpp.
//   NotifiesInOrder          notify_one wakes the waiter that has waited longest.
//   RequeueWakesNobody       it moves waiters from one word to another.
//
// Thread safety: all of it.  The word must live until the waiters have returned.
// Exceptions: a wait with a deadline throws std::bad_alloc, or std::system_error, if the timer
// thread refuses a timer; then it has not waited.  A stop throws forced_unwind.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verge {

enum class wait_result : std::uint8_t {
    notified,     ///< A notify ended it.
    changed,      ///< The word did not have the value expected: no wait.
    timed_out,    ///< The deadline has passed.
    interrupted,  ///< fiber::interrupt() ended it; the interrupt is consumed.
    stopped,      ///< In a no_unwind scope: a stop, or the deadline in force; stays so.
};

/// Waits while `word == expected`, until notified.  An interrupt ends it; a stop request, or the
/// deadline in force, unwinds (verge/sync/cancellation.hpp).
wait_result wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                 time_point deadline = never);

/// The same, but interrupts and stop requests are kept for a later wait: for locks.
wait_result wait_uninterrupted(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                               time_point deadline = never);

/// The same for joins: a stop request or the deadline in force unwinds, an interrupt waits for a
/// later wait.  In a no_unwind scope neither ends it.
wait_result wait_joining(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                         time_point deadline = never);

/// Wakes the waiter that has waited longest; at most n waiters; all.  Returns how many.
std::size_t notify_one(const std::atomic<std::uint32_t>& word) noexcept;
std::size_t notify_n(const std::atomic<std::uint32_t>& word, std::size_t n) noexcept;
std::size_t notify_all(const std::atomic<std::uint32_t>& word) noexcept;

/// Wakes at most `wake` waiters of `from` and moves the others, at most `move`, to `to`, if `from`
/// still has the value `expected`.  Returns how many it woke and moved.
std::size_t requeue(const std::atomic<std::uint32_t>& from, std::uint32_t expected,
                    const std::atomic<std::uint32_t>& to, std::size_t wake,
                    std::size_t move) noexcept;

namespace detail::sync {

struct linked_hook {
    void (*call)(void* context) noexcept = nullptr;
    void* context = nullptr;
};

struct linked_result {
    wait_result why;
    bool moved = false;  ///< requeue() has moved it to another word, and not back.
};

/// wait(), which calls the hook once no notify can miss the waiter, and does not read the word
/// after that.  The hook may notify, and must not wait.  Not called if the wait does not begin:
/// the word has changed, or an interrupt was pending.
linked_result wait_linked(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                          time_point deadline, linked_hook hook);

/// How many waiters the word has at this moment: for tests and diagnostics.
[[nodiscard]] std::size_t waiters_of(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace detail::sync

}  // namespace verge
