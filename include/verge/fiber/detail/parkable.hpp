// verge/fiber/detail/parkable.hpp -- something that can wait: a fiber, or a plain thread.
//
//     parkable& self = current();
//     const auto epoch = self.begin_wait(true);
//     ... let others know of (self, epoch): claims may come from now on ...
//     const wake_reason why = self.suspend(epoch, deadline);
//
// Requests outlive waits: an interrupt that finds nobody waiting is remembered for the next wait
// that can be interrupted.  What settles who ends a wait, and with which memory orders:
// park_cell.hpp.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/assert.hpp>
#include <verge/base/parker.hpp>
#include <verge/fiber/detail/park_cell.hpp>

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

    /// Begins a wait.  It may be given up as long as nobody knows of its epoch.
    [[nodiscard]] epoch begin_wait(bool interruptible) noexcept {
        assert_may_suspend();
        interruptible_ = interruptible;
        return cell_.begin();
    }

    /// Scopes in which the owner must not suspend (no_suspend.hpp).  By the owner.
    void forbid_suspension() noexcept { ++no_suspend_; }
    void allow_suspension() noexcept { --no_suspend_; }
    void assert_may_suspend() const noexcept {
        VERGE_ASSERT(no_suspend_ == 0, "verge: a wait inside a no_suspend scope");
    }

    /// Who ended the wait.  By the owner, after that.
    [[nodiscard]] wake_reason finish() const noexcept { return cell_.finish(); }

    /// Leaves the processor until the wait is claimed, or `deadline`.  By the owner.
    /// Throws std::bad_alloc or std::system_error if no timer can be had: then the wait is over.
    wake_reason suspend(epoch of, time_point deadline);

    /// Ends the wait `of`, if it is not over.  By any thread.  `ready`: then make_ready() it.
    [[nodiscard]] claim_result claim(epoch of, wake_reason why) noexcept {
        return cell_.claim(of, why);
    }

    /// Says that the owner has left its stack, or is about to sleep in the kernel.  False if the
    /// wait is over: make it ready.  Then, and only then, nobody else does.
    [[nodiscard]] bool commit(epoch of) noexcept { return cell_.commit(of, interruptible_); }

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
        if (cell_.request(what) == claim_result::ready) make_ready();
    }

    [[nodiscard]] std::uint32_t requests() const noexcept { return cell_.requests(); }

    /// Takes an interrupt away.  By the owner.
    void consume_interrupt() noexcept { cell_.take_away(interrupt_request); }

    /// Whether it is a fiber_record.
    [[nodiscard]] bool is_fiber() const noexcept { return kind_ != parkable_kind::thread; }

protected:
    explicit constexpr parkable(parkable_kind kind) noexcept : kind_(kind) {}
    ~parkable() = default;

    park_cell cell_;
    parkable_kind kind_;           // changed only while nobody knows of it
    bool interruptible_ = false;   // the wait; written by the owner, read by commit()
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
