// verge/sync/event.hpp -- a flag that can be waited for: event and auto_reset_event.
//
//     verge::event loaded;
//     loaded.set();                                      // wakes all; later waits return at once
//     if (loaded.wait_for(5s) == wait_result::notified) ...
//
//     verge::auto_reset_event work;
//     work.set();                                        // lets one wait return, now or later
//     work.wait();
//
// An event stays set until reset().  An auto_reset_event is reset by the wait that it ends; two
// set() without a wait in between count as one.  Not for counting: see semaphore.hpp.
//
// Guarantees, under the names of the tests that hold them
//   SetLetsAllGoOn                     and each sees what was written before set().
//   AResetDoesNotHoldWhoWaitedAtTheSet set(), then reset() at once: all that waited return.
//   AnAutoResetEventLetsOneGoOn        for each set() that finds it not set.
//   ATimedWaitIsNeverEarly
//   AnInterruptEndsAWait               and consumes no set().
//   MayBeDestroyedByAWaiter            set() accesses the memory once.
//
// States of event's word_ {round, waiters, set}
//
//   set      it is set; then waiters is clear
//   waiters  there may be waiters: the next set() wakes all
//   round    counts, modulo 2^30, the set() calls that found it not set.  A waiter returns when
//            round differs from the value it has read, so that it does not miss a set() that was
//            reset.
//
// States of auto_reset_event's word_
//
//     unset --set()--> is_set --a wait, which returns--> unset
//     unset --a wait--> waited --set(), which wakes one--> is_set
//
//   unset    not set, no waiters
//   is_set   set; the next wait returns
//   waited   not set, and there may be waiters
//
// Invariants
//   E1  A thread waits only on a word with `waiters`, or on `waited`.
//   E2  A waiter woken by an auto_reset_event takes it by is_set -> waited: there may be others.
//   E3  After its write, set() uses only the address, and does not access the memory.
//
// Memory orders
//   set() releases, also when it was set already; a wait that returns acquires, and so does
//   reset(), which thereby sees what the set() it reverts has published.  All writes are
//   read-modify-writes.
//
// Thread safety: all of it.  Size: 4 bytes each; nothing allocates.
// Exceptions: the timed forms as wait().  Nothing else throws.

#pragma once

#include <verge/sync/detail/deadline_in.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cstdint>

namespace verge {

class event {
public:
    constexpr explicit event(bool set = false) noexcept : word_(set ? set_bit : 0) {}
    event(const event&) = delete;
    event& operator=(const event&) = delete;
    ~event() = default;

    void set() noexcept;
    void reset() noexcept {
        // acquire: pairs with the release in the set() that it reverts.
        word_.fetch_and(~set_bit, std::memory_order_acquire);
    }
    [[nodiscard]] bool is_set() const noexcept {
        // acquire: pairs with the release in set().
        return (word_.load(std::memory_order_acquire) & set_bit) != 0;
    }

    /// Waits until it is set.  Returns notified, or interrupted; those with a deadline also
    /// timed_out.
    wait_result wait() { return wait_until(never); }
    [[nodiscard]] wait_result wait_until(time_point deadline) {
        return is_set() ? wait_result::notified : wait_for_set(deadline);
    }
    template <detail::sync::delay Delay>
    [[nodiscard]] wait_result wait_for(Delay delay) {
        return is_set() ? wait_result::notified : wait_for_set(detail::sync::deadline_in(delay));
    }

private:
    static constexpr std::uint32_t set_bit = 1;
    static constexpr std::uint32_t waiters = 2;
    static constexpr std::uint32_t one_round = 4;

    wait_result wait_for_set(time_point deadline);

    // Written by set(), reset() and waits.
    std::atomic<std::uint32_t> word_;
};

class auto_reset_event {
public:
    constexpr explicit auto_reset_event(bool set = false) noexcept : word_(set ? is_set : unset) {}
    auto_reset_event(const auto_reset_event&) = delete;
    auto_reset_event& operator=(const auto_reset_event&) = delete;
    ~auto_reset_event() = default;

    void set() noexcept {
        // release: pairs with the acquire of the wait that returns.
        if (word_.exchange(is_set, std::memory_order_release) == waited) notify_one(word_);
    }

    /// Resets it if it is set.  Returns whether it was.
    [[nodiscard]] bool try_wait() noexcept {
        std::uint32_t seen = is_set;
        // acquire: pairs with the release in set().  relaxed on failure: nothing is read.
        return word_.compare_exchange_strong(seen, unset, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }

    /// Waits until it is set, and resets it.  Returns notified, interrupted or stopped; those with
    /// a deadline also timed_out.  Only `notified` has reset it.
    wait_result wait() { return wait_until(never); }
    [[nodiscard]] wait_result wait_until(time_point deadline) {
        return try_wait() ? wait_result::notified : wait_for_set(deadline);
    }
    template <detail::sync::delay Delay>
    [[nodiscard]] wait_result wait_for(Delay delay) {
        return try_wait() ? wait_result::notified : wait_for_set(detail::sync::deadline_in(delay));
    }

private:
    static constexpr std::uint32_t unset = 0;
    static constexpr std::uint32_t is_set = 1;
    static constexpr std::uint32_t waited = 2;

    wait_result wait_for_set(time_point deadline);

    // Written by set() and waits.
    std::atomic<std::uint32_t> word_;
};

}  // namespace verge
