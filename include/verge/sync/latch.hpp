// verge/sync/latch.hpp -- wait until a number of things have happened: latch and wait_group.
//
//     verge::latch ready(3);                             // counts down once
//     ready.count_down();                                // three of these
//     ready.wait();                                      // any number of waiters, also later
//
//     verge::wait_group jobs;                            // counts up and down
//     for (auto& job : list) { jobs.add(); spawn([&] { job(); jobs.done(); }); }
//     jobs.wait();                                       // until all that were added are done
//
// A latch is for a number known beforehand, and opens once.  A wait_group is for one that is not,
// and may be reused: call add() for the next round only after the waits of this one have returned,
// or these wait for the next round as well.  As in Go, add() must come before the code that calls
// done() is started.
//
// Guarantees, under the names of the tests that hold them
//   OpensWithTheLastCount              and a waiter sees what all wrote before they counted.
//   AnOpenLatchHoldsNobody
//   ATimedWaitIsNeverEarly
//   AnInterruptEndsAWait               the count stays as it is.
//   MayBeDestroyedByAWaiter            count_down() and done() access the memory once.
//
// States of word_: how many are missing; 0 is open.  Only the step to 0 wakes, and it wakes all: so
// a waiter may wait on any number that it has read.
//
// Invariants
//   LA1  A latch's word_ only decreases.  A thread that has read 0 need not read it again.
//   LA2  After the step to 0, count_down() and done() use only the address.
//
// Memory orders
//   A step down releases; a waiter that reads 0 acquires.  All steps are read-modify-writes, so the
//   0 carries what each of them released.  add() is relaxed: it publishes nothing.
//
// Thread safety: all of it.  Size: 4 bytes each; nothing allocates.
// Exceptions: the timed forms as wait().  Nothing else throws.

#pragma once

#include <verge/base/detail/assert.hpp>
#include <verge/sync/detail/deadline_in.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cstdint>

namespace verge {

namespace detail::sync {

/// The common base of both.
class countdown {
public:
    countdown(const countdown&) = delete;
    countdown& operator=(const countdown&) = delete;

    /// Whether the count is 0.
    [[nodiscard]] bool try_wait() const noexcept {
        // acquire: pairs with the releases in step_down().
        return word_.load(std::memory_order_acquire) == 0;
    }

    /// Waits until it is 0.  Returns notified, or interrupted; those with a deadline also
    /// timed_out.
    wait_result wait() const { return wait_until(never); }
    [[nodiscard]] wait_result wait_until(time_point deadline) const {
        return try_wait() ? wait_result::notified : wait_for_zero(deadline);
    }
    template <delay Delay>
    [[nodiscard]] wait_result wait_for(Delay delay) const {
        return try_wait() ? wait_result::notified : wait_for_zero(deadline_in(delay));
    }

protected:
    constexpr explicit countdown(std::uint32_t count) noexcept : word_(count) {}
    ~countdown() = default;

    void step_down(std::uint32_t n) noexcept {
        if (n == 0) return;
        // release: pairs with the acquire of a wait that reads 0.
        const std::uint32_t was = word_.fetch_sub(n, std::memory_order_release);
        VERGE_ASSERT(was >= n, "verge: a latch or wait_group that counts below 0");
        if (was == n) notify_all(word_);  // by its address only (LA2)
    }
    void step_up(std::uint32_t n) noexcept {
        // relaxed: publishes nothing.
        [[maybe_unused]] const std::uint32_t was = word_.fetch_add(n, std::memory_order_relaxed);
        VERGE_ASSERT(was + n >= was, "verge: a wait_group that counts beyond its limit");
    }

private:
    wait_result wait_for_zero(time_point deadline) const;

    // Written by threads that count.
    std::atomic<std::uint32_t> word_;
};

}  // namespace detail::sync

class latch : public detail::sync::countdown {
public:
    constexpr explicit latch(std::uint32_t count) noexcept : countdown(count) {}

    /// Precondition: n <= the count.
    void count_down(std::uint32_t n = 1) noexcept { step_down(n); }

    /// count_down(n), then wait().
    wait_result arrive_and_wait(std::uint32_t n = 1) {
        count_down(n);
        return wait();
    }
};

class wait_group : public detail::sync::countdown {
public:
    constexpr explicit wait_group(std::uint32_t count = 0) noexcept : countdown(count) {}

    void add(std::uint32_t n = 1) noexcept { step_up(n); }

    /// Precondition: n were added and are not done.
    void done(std::uint32_t n = 1) noexcept { step_down(n); }
};

}  // namespace verge
