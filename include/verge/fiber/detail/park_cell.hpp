// verge/fiber/detail/park_cell.hpp -- the one word that decides who ends a wait.
//
// A waiter (a fiber, or a plain thread) is known to three kinds of people who may end its wait: a
// notifier, a timer, an interrupter.  Exactly one of them must.  Each claims the wait by a CAS on
// this word; a claim names the wait by its epoch, so one that comes too late, for a wait that is
// over, does nothing.
//
// States of the word {epoch, interruptible, reason, state}
//
//     running --begin()--> parking --commit()--> parked
//        ^                    |                     |
//        |                  claim()               claim(): whoever claims makes it ready
//        |                    v                     v
//        +---- finish() --- notified <--------------+
//
//   running    the owner runs and waits for nothing
//   parking    the owner has announced the wait and still runs on its stack
//   parked     the owner has left its stack: it may be made ready
//   notified   the wait is over; the reason says by whom
//
// Invariants
//   P1  begin(), abandon() and finish() are the owner's; commit() is called once a wait, by the
//   code
//       that runs after the owner has left its stack.
//   P2  Of all claims on one epoch, and abandon(), exactly one succeeds.
//   P3  The owner is made ready exactly once a wait: by the claim that found it parked, or by the
//       commit() that found it notified.  So nobody runs on a stack that is still in use.
//
// Memory orders
//   begin() stores with seq_cst before the owner looks at its requests; an interrupter sets a
//   request, then loads the word, both seq_cst: one of them sees the other.
//   A claim releases what the claimer wrote, and finish() acquires it.  commit() releases what the
//   owner left on its stack, and a claim that finds `parked` acquires it.
//   tests/model/park_cell_model.cpp explores this source.

#pragma once

#include <atomic>
#include <cstdint>

namespace verge::fibers::detail {

/// Who ended a wait.
enum class wake_reason : std::uint8_t { notified, timed_out, interrupted };

/// What became of a claim.
enum class claim_result : std::uint8_t {
    lost,   ///< The wait was over.
    won,    ///< It is over now; its owner has not left its stack yet, and will see it.
    ready,  ///< It is over now, and the claimer must make the owner ready.
};

struct park_platform {
    template <class T>
    using atomic = std::atomic<T>;
};

template <class Platform = park_platform>
class basic_park_cell {
public:
    using epoch = std::uint64_t;

    /// Announces a wait.  Returns the epoch that claims must name.
    [[nodiscard]] epoch begin(bool interruptible) noexcept {
        // relaxed: only the owner begins waits, and all claims on the last one are over.
        const epoch next = (word_.load(std::memory_order_relaxed) >> epoch_shift) + 1;
        // seq_cst: before the look at the requests; pairs with the load in claim_any().
        word_.store(pack(next, interruptible, parking), std::memory_order_seq_cst);
        return next;
    }

    /// Takes the announcement back.  False if somebody has claimed the wait: then finish().
    [[nodiscard]] bool abandon(epoch of) noexcept {
        for (const bool interruptible : {false, true}) {
            std::uint64_t seen = pack(of, interruptible, parking);
            // relaxed, twice: it publishes nothing, and who fails acquires in finish().
            if (word_.compare_exchange_strong(seen, pack(of, false, running),
                                              std::memory_order_relaxed,
                                              std::memory_order_relaxed)) {
                return true;
            }
        }
        return false;
    }

    /// Says that the owner has left its stack.  False if the wait is over: make it ready.
    [[nodiscard]] bool commit(epoch of) noexcept {
        // relaxed: the CAS below decides.
        std::uint64_t seen = word_.load(std::memory_order_relaxed);
        if (seen >> epoch_shift != of || (seen & state_mask) != parking) return false;
        // release: the owner's stack, for the claim that finds it parked.  relaxed on failure: the
        // caller makes the owner ready, and that orders it.
        return word_.compare_exchange_strong(seen, (seen & ~state_mask) | parked,
                                             std::memory_order_release, std::memory_order_relaxed);
    }

    /// Ends the wait `of`, if it is not over.
    [[nodiscard]] claim_result claim(epoch of, wake_reason why) noexcept {
        // relaxed: the CAS in try_claim() decides.
        return try_claim(word_.load(std::memory_order_relaxed), of, why);
    }

    /// Ends whatever interruptible wait there is.
    [[nodiscard]] claim_result interrupt() noexcept {
        // seq_cst: after the request was set; pairs with the store in begin().
        const std::uint64_t seen = word_.load(std::memory_order_seq_cst);
        if ((seen & interruptible_bit) == 0) return claim_result::lost;
        return try_claim(seen, seen >> epoch_shift, wake_reason::interrupted);
    }

    /// Whether a claim has ended the wait `of`.
    [[nodiscard]] bool claimed(epoch of) const noexcept {
        // acquire: pairs with the release in try_claim().
        const std::uint64_t seen = word_.load(std::memory_order_acquire);
        return seen >> epoch_shift == of && (seen & state_mask) == notified;
    }

    /// The owner goes on.  Precondition: a claim has ended the wait.
    wake_reason finish() noexcept {
        // acquire: pairs with the release in try_claim().
        const std::uint64_t seen = word_.load(std::memory_order_acquire);
        // relaxed: nobody claims a wait that is over.
        word_.store(seen & ~(state_mask | interruptible_bit), std::memory_order_relaxed);
        return static_cast<wake_reason>((seen >> reason_shift) & reason_mask);
    }

private:
    // Bits: 0-1 state, 2 interruptible, 3-4 reason, 8-63 epoch.
    static constexpr std::uint64_t running = 0;
    static constexpr std::uint64_t parking = 1;
    static constexpr std::uint64_t parked = 2;
    static constexpr std::uint64_t notified = 3;
    static constexpr std::uint64_t state_mask = 3;
    static constexpr std::uint64_t interruptible_bit = 4;
    static constexpr unsigned reason_shift = 3;
    static constexpr std::uint64_t reason_mask = 3;
    static constexpr unsigned epoch_shift = 8;

    static constexpr std::uint64_t pack(epoch of, bool interruptible,
                                        std::uint64_t state) noexcept {
        return of << epoch_shift | (interruptible ? interruptible_bit : 0) | state;
    }

    claim_result try_claim(std::uint64_t seen, epoch of, wake_reason why) noexcept {
        for (;;) {
            const std::uint64_t state = seen & state_mask;
            if (seen >> epoch_shift != of || (state != parking && state != parked)) {
                return claim_result::lost;
            }
            const std::uint64_t over = pack(of, false, notified) | static_cast<std::uint64_t>(why)
                                                                       << reason_shift;
            // acq_rel: releases what the claimer wrote, for finish(); acquires the owner's stack,
            // which commit() released.  relaxed on failure: it is looked at again.
            if (word_.compare_exchange_weak(seen, over, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return state == parked ? claim_result::ready : claim_result::won;
            }
        }
    }

    // Written: see P1 and the states.
    typename Platform::template atomic<std::uint64_t> word_{0};
};

using park_cell = basic_park_cell<>;

}  // namespace verge::fibers::detail
