// verge/sync/wait.hpp -- wait on a word until somebody notifies: what all else is made of.
//
//     std::atomic<std::uint32_t> open{0};
//
//     while (open.load() == 0) verge::wait(open, 0);           // a fiber, or a thread
//
//     open.store(1);
//     verge::notify_all(open);                                 // anybody
//
// It is a futex for fibers and threads alike: a fiber that waits leaves its worker free, a plain
// thread sleeps in the kernel.  It is for people who write their own synchronisation.  Not the
// right tool where a mutex, an event or a semaphore will do.
//
// The word's address is all that counts: it may be anywhere, and costs nothing while nobody waits.
// Waiters of one word are woken first come, first served.
//
// Guarantees, under the names of the tests that hold them
//   LosesNoWakeUp            a change of the word, then a notify: whoever saw the old value wakes.
//   ReturnsAtItsDeadline     and never before it.
//   AnInterruptEndsAWait     also one that came before the wait.
//   AStopUnwinds             by forced_unwind: verge/sync/cancellation.hpp.
//   NotifiesInOrder          notify_one wakes who has waited longest.
//   RequeueWakesNobody       it moves waiters from one word to another.
//
// Thread safety: all of it.  The word must live until the waiters have returned.
// Exceptions: a wait with a deadline throws std::bad_alloc, or std::system_error, if the timer
// thread takes no more timers; then it has not waited.  forced_unwind, as said.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verge {

enum class wait_result : std::uint8_t {
    notified,     ///< Somebody notified.
    changed,      ///< The word did not have the value expected: no wait.
    timed_out,    ///< The deadline has passed.
    interrupted,  ///< fiber::interrupt() ended it; the interrupt is consumed.
    stopped,      ///< In a no_unwind scope: a stop, or the deadline in force; stays so.
};

/// Waits while `word == expected`, until notified.  An interrupt ends it; a stop request, or the
/// deadline in force, unwinds (verge/sync/cancellation.hpp).
wait_result wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                 time_point deadline = never);

/// The same, but interrupts and stop requests wait for a later wait: for locks.
wait_result wait_uninterrupted(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                               time_point deadline = never);

/// The same for joins: a stop request or the deadline in force unwinds, an interrupt waits for a
/// later wait.  In a no_unwind scope neither ends it.
wait_result wait_joining(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                         time_point deadline = never);

/// Wakes who has waited longest; at most n; all.  Returns how many.
std::size_t notify_one(const std::atomic<std::uint32_t>& word) noexcept;
std::size_t notify_n(const std::atomic<std::uint32_t>& word, std::size_t n) noexcept;
std::size_t notify_all(const std::atomic<std::uint32_t>& word) noexcept;

/// Wakes at most `wake` waiters of `from` and lets the others, at most `move`, wait on `to`
/// instead, if `from` still has the value `expected`.  Returns how many it woke and moved.
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
    bool moved = false;  ///< requeue() let it wait on another word, and it has not come back.
};

/// wait(), which calls the hook once no notify can miss the waiter, and reads the word no more
/// after that.  The hook may notify, and must not wait.  Not called if the wait does not begin:
/// the word has changed, or an interrupt was there already.
linked_result wait_linked(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                          time_point deadline, linked_hook hook);

/// How many wait on the word at this moment: for tests, and people who look.
[[nodiscard]] std::size_t waiters_of(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace detail::sync

}  // namespace verge
