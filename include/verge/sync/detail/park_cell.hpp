// verge/sync/detail/park_cell.hpp -- the one word that decides which event ends a wait.
//
// The wait of a waiter (a fiber, or a plain thread) can be ended by a notifier, by a timer or by an
// interrupt.  Exactly one of them must do it.  Each claims the wait by a CAS on this word; a claim
// names the wait by its epoch, so a late claim, for a wait that has ended, does nothing.
//
// Requests (an interrupt, a stop) outlive waits.  They are bits of the same word: a thread that
// sets one sees in the same step whether there is a wait to end.
//
// States of the word {epoch, parked, interruptible, reason, requests}
//
//     {e, awake} --------commit(e)-------> {e, parked}
//         |                                     |
//      claim(e), or a commit(e)              claim(e), or a request(): its caller
//      that finds a request                  makes the owner ready
//         v                                     |
//     {e + 1, awake, reason} <------------------+
//
//   awake    the owner is on its stack, in the wait e or before it
//   parked   the owner has left its stack: it may be made ready
//
// No other thread knows an epoch before the owner publishes it, so beginning and finishing a wait
// writes nothing.
//
// Invariants
//   P1  Only the owner calls begin() and finish().  commit() is called once per wait, by the code
//       that runs after the owner has left its stack.
//   P2  Of all claims on one epoch exactly one succeeds: it ends that epoch.
//   P3  The owner is made ready exactly once per wait: by the claim or request that found it
//       parked, or by the caller of the commit() that returned false.  So no thread runs on a stack
//       that is still in use.
//   P4  Every write is a read-modify-write.  So a request is not lost: it comes before the commit()
//       and is seen by it, or after, and sees that the owner is parked.
//
// Memory orders
//   A claim, or a request, releases what its caller wrote; finish() and requests() acquire it, also
//   past later writes (P4).  commit() releases what the owner left on its stack, and the claim that
//   finds it parked acquires that.
//   tests/model/park_cell_model.cpp explores this source.

#pragma once

#include <atomic>
#include <cstdint>

namespace verge::detail::sync {

/// What ended a wait.
enum class wake_reason : std::uint8_t { notified, timed_out, interrupted };

/// The result of a claim.
enum class claim_result : std::uint8_t {
    lost,   ///< The wait had ended.
    won,    ///< The claim ended it; its owner has not left its stack, and will see it.
    ready,  ///< The claim ended it, and the claimer must make the owner ready.
};

struct park_platform {
    template <class T>
    using atomic = std::atomic<T>;
};

template <class Platform = park_platform>
class basic_park_cell {
public:
    using epoch = std::uint64_t;

    static constexpr std::uint32_t all_requests = 3;

    /// The epoch of the owner's next wait, which claims must name.
    [[nodiscard]] epoch begin() const noexcept {
        // relaxed: it changed last by the claim that the owner has seen in finish().
        return word_.load(std::memory_order_relaxed) >> epoch_shift;
    }

    /// Records that the owner has left its stack.  False if the wait has ended: make it ready.
    /// `interruptible`: requests end the wait.
    [[nodiscard]] bool commit(epoch of, bool interruptible) noexcept {
        // relaxed: the CAS below decides.
        std::uint64_t seen = word_.load(std::memory_order_relaxed);
        while (seen >> epoch_shift == of) {
            const bool asked = interruptible && (seen & request_mask) != 0;
            const std::uint64_t next = asked           ? over(seen, wake_reason::interrupted)
                                       : interruptible ? seen | parked | interruptible_bit
                                                       : seen | parked;
            // release: the owner's stack, for the claim that finds it parked.  relaxed on
            // failure: the loop reads it again; and if the wait has ended, the caller makes the
            // owner ready, and that orders it.
            if (word_.compare_exchange_weak(seen, next, std::memory_order_release,
                                            std::memory_order_relaxed)) {
                return !asked;
            }
        }
        return false;
    }

    /// Ends the wait `of`, if it has not ended.
    [[nodiscard]] claim_result claim(epoch of, wake_reason why) noexcept {
        // relaxed: the CAS below decides.
        std::uint64_t seen = word_.load(std::memory_order_relaxed);
        while (seen >> epoch_shift == of) {
            // acq_rel: releases what the claimer wrote, for finish(); acquires the owner's stack,
            // which commit() released.  relaxed on failure: the loop tests it again.
            if (word_.compare_exchange_weak(seen, over(seen, why), std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return (seen & parked) != 0 ? claim_result::ready : claim_result::won;
            }
        }
        return claim_result::lost;
    }

    /// Sets requests for the owner, and ends its wait if it is parked in an interruptible one.
    /// Returns `ready` then, else `lost`.
    [[nodiscard]] claim_result request(std::uint32_t what) noexcept {
        // relaxed: the CAS below decides.
        std::uint64_t seen = word_.load(std::memory_order_relaxed);
        for (;;) {
            const bool ends = (seen & interruptible_bit) != 0;
            const std::uint64_t next = ends ? over(seen, wake_reason::interrupted) : seen;
            // acq_rel, and relaxed on failure: as in claim(), and for requests().
            if (word_.compare_exchange_weak(seen, next | std::uint64_t{what} << request_shift,
                                            std::memory_order_acq_rel, std::memory_order_relaxed)) {
                return ends ? claim_result::ready : claim_result::lost;
            }
        }
    }

    /// The requests that are set.
    [[nodiscard]] std::uint32_t requests() const noexcept {
        // acquire: pairs with the release in request().
        return static_cast<std::uint32_t>((word_.load(std::memory_order_acquire) & request_mask) >>
                                          request_shift);
    }

    /// Clears requests.  By the owner, while it is awake.
    void take_away(std::uint32_t what) noexcept {
        // relaxed: it neither reads nor publishes other data.
        word_.fetch_and(~(std::uint64_t{what} << request_shift), std::memory_order_relaxed);
    }

    /// The owner continues: what has ended its wait.  Precondition: the wait has ended.
    [[nodiscard]] wake_reason finish() const noexcept {
        // acquire: pairs with the release in claim() and request().
        return static_cast<wake_reason>((word_.load(std::memory_order_acquire) & reason_mask) >>
                                        reason_shift);
    }

    /// Whether the owner has left its stack and nobody has ended its wait: for display.
    [[nodiscard]] bool is_parked() const noexcept {
        return (word_.load(std::memory_order_relaxed) & parked) != 0;  // relaxed: for display
    }

private:
    // Bits: 0 parked, 1 interruptible (only together with it), 2-3 reason, 4-5 requests, 8-63
    // epoch.
    static constexpr std::uint64_t parked = 1;
    static constexpr std::uint64_t interruptible_bit = 2;
    static constexpr unsigned reason_shift = 2;
    static constexpr std::uint64_t reason_mask = std::uint64_t{3} << reason_shift;
    static constexpr unsigned request_shift = 4;
    static constexpr std::uint64_t request_mask = std::uint64_t{all_requests} << request_shift;
    static constexpr unsigned epoch_shift = 8;

    // The next epoch, with the requests that there are.
    static constexpr std::uint64_t over(std::uint64_t seen, wake_reason why) noexcept {
        return ((seen >> epoch_shift) + 1) << epoch_shift | (seen & request_mask) |
               static_cast<std::uint64_t>(why) << reason_shift;
    }

    // Written: see P1 and the states.  Epochs begin with 1.
    typename Platform::template atomic<std::uint64_t> word_{std::uint64_t{1} << epoch_shift};
};

using park_cell = basic_park_cell<>;

}  // namespace verge::detail::sync
