// verge/fiber/detail/parkable.hpp -- something that can wait: a fiber, or a plain thread.
//
//     parkable& self = current();
//     const auto epoch = self.begin_wait(true);          // announced: claims may come from now on
//     ... let others know of (self, epoch) ...
//     const wake_reason why = self.suspend(epoch, deadline);
//
// Requests outlive waits: an interrupt that finds nobody waiting is remembered for the next wait
// that can be interrupted.
//
// Memory orders
//   requests  set with seq_cst before the look at the cell; read with seq_cst after the cell was
//   set
//             to parking: see park_cell.hpp.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/assert.hpp>
#include <verge/base/parker.hpp>
#include <verge/fiber/detail/park_cell.hpp>

#include <atomic>
#include <cstdint>

namespace verge::fibers::detail {

/// How something waits.
enum class parkable_kind : std::uint8_t {
    fiber,   ///< By leaving its stack.
    thread,  ///< In the kernel: a plain thread.
    native,  ///< In the kernel: a fiber on its worker's own stack.
};

class parkable {
public:
    using epoch = park_cell::epoch;

    parkable(const parkable&) = delete;
    parkable& operator=(const parkable&) = delete;

    static constexpr std::uint32_t interrupt_request = 1;  // consumed by the wait that it ends
    static constexpr std::uint32_t stop_request = 2;       // stays

    /// Announces a wait.
    [[nodiscard]] epoch begin_wait(bool interruptible) noexcept {
        assert_may_suspend();
        return cell_.begin(interruptible);
    }

    /// Scopes in which the owner must not suspend (no_suspend.hpp).  By the owner.
    void forbid_suspension() noexcept { ++no_suspend_; }
    void allow_suspension() noexcept { --no_suspend_; }
    void assert_may_suspend() const noexcept {
        VERGE_ASSERT(no_suspend_ == 0, "verge: a wait inside a no_suspend scope");
    }

    /// Whether a request forbids the wait that was announced as interruptible.
    [[nodiscard]] bool asked_to_return() const noexcept { return requests() != 0; }

    /// Ends the announcement without having suspended.  What ended the wait, if something did.
    [[nodiscard]] bool abandon(epoch of) noexcept { return cell_.abandon(of); }
    wake_reason finish() noexcept { return cell_.finish(); }

    /// Leaves the processor until the wait is claimed, or `deadline`.  By the owner.
    /// Throws std::bad_alloc or std::system_error if no timer can be had: then the wait is over.
    wake_reason suspend(epoch of, time_point deadline);

    /// Ends the wait `of`, if it is not over.  By any thread.  `ready`: then make_ready() it.
    [[nodiscard]] claim_result claim(epoch of, wake_reason why) noexcept {
        return adjusted(cell_.claim(of, why));
    }

    /// Says that the owner has left its stack.  False if the wait is over: make it ready.
    [[nodiscard]] bool commit(epoch of) noexcept { return cell_.commit(of); }

    /// Lets the owner of a wait go on that was claimed with `ready`.
    void make_ready() noexcept;

    /// Both.
    bool wake(epoch of, wake_reason why) noexcept {
        const claim_result result = claim(of, why);
        if (result == claim_result::ready) make_ready();
        return result != claim_result::lost;
    }

    /// Sets a request and ends the wait, if it can be interrupted.  By any thread.
    void request(std::uint32_t what) noexcept {
        // seq_cst: before the look at the cell; pairs with the load in requests().
        requests_.fetch_or(what, std::memory_order_seq_cst);
        if (adjusted(cell_.interrupt()) == claim_result::ready) make_ready();
    }

    [[nodiscard]] std::uint32_t requests() const noexcept {
        // seq_cst: after the cell was set to parking; pairs with the store in request().
        return requests_.load(std::memory_order_seq_cst);
    }

    /// Takes an interrupt away.  By the owner.
    void consume_interrupt() noexcept {
        // relaxed: only the owner consumes, and it reads nothing by it.
        requests_.fetch_and(~interrupt_request, std::memory_order_relaxed);
    }

protected:
    explicit constexpr parkable(parkable_kind kind) noexcept : kind_(kind) {}
    ~parkable() = default;

    // A thread sleeps in the kernel, and must be woken in every case.
    [[nodiscard]] claim_result adjusted(claim_result result) const noexcept {
        return result == claim_result::won && kind_ != parkable_kind::fiber ? claim_result::ready
                                                                            : result;
    }

    park_cell cell_;
    std::atomic<std::uint32_t> requests_{0};
    parkable_kind kind_;           // changed only while nobody knows of it
    std::uint8_t no_suspend_ = 0;  // depth of no_suspend scopes; written by the owner
};

/// A thread that waits without being a fiber.
class thread_parkable final : public parkable {
public:
    constexpr thread_parkable() noexcept : parkable(parkable_kind::thread) {}
    verge::parker parker;
};

/// Whoever runs on the calling thread.  Not inlined: a fiber may come back on another thread.
[[nodiscard]] parkable& current() noexcept;

}  // namespace verge::fibers::detail
