// verge/sync/detail/waiter.hpp -- something that can wait: a thread, a fiber.
//
//     waiter& self = current();
//     const auto epoch = self.begin_wait(true);
//     ... publish (self, epoch): claims may come from now on ...
//     const wake_reason why = self.suspend(epoch, deadline);
//
// This is the one place where synchronisation meets the kinds of waiters.  They differ in a table
// of three operations: a thread parks in the kernel, a fiber leaves its stack.  The layer that
// makes a kind of waiter supplies its table, so this layer knows threads only.
//
// Requests outlive waits: an interrupt that finds no wait is kept for the next wait that can be
// interrupted.  park_cell.hpp decides what ends a wait, and with which memory orders.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/assert.hpp>
#include <verge/base/parker.hpp>
#include <verge/sync/detail/park_cell.hpp>
#include <verge/sync/forced_unwind.hpp>
#include <verge/sync/wait_kind.hpp>

#include <atomic>
#include <cstdint>
#include <exception>

namespace verge::detail::sync {

class waiter;

/// The operations of one kind of waiter.
struct waiter_operations {
    /// Leaves the processor until the wait is claimed, or `deadline`.  May throw only if it has
    /// ended the wait by its own claim.
    wake_reason (*suspend)(waiter& self, park_cell::epoch of, time_point deadline);
    /// Resumes the owner of a wait that was claimed with `ready`.  By any thread.
    void (*make_ready)(waiter& self) noexcept;
    /// The calling thread is about to block in the kernel: flushes what it has deferred, such as
    /// the wake-ups of batched spawns.  By the owner.
    void (*before_block)(waiter& self) noexcept;
};

class waiter {
public:
    using epoch = park_cell::epoch;

    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

    static constexpr std::uint32_t interrupt_request = 1;  // consumed by the wait that it ends
    static constexpr std::uint32_t stop_request = 2;       // stays

    /// Begins a wait.  It may be abandoned as long as its epoch has not been published.
    [[nodiscard]] epoch begin_wait(bool interruptible) noexcept {
        assert_may_suspend();
        interruptible_ = interruptible;
        return cell_.begin();
    }

    // ---- stops and deadlines: docs/design/cancellation.md.  All by the owner.

    /// What is in force for the owner's waits.
    struct context {
        time_point deadline = never;
        std::uint8_t shields = 0;    // depth of shields: stops do not count
        std::uint8_t no_unwind = 0;  // depth of no_unwind scopes: waits return instead
        std::uint8_t uncaught = 0;   // exceptions under way when the innermost scope began
    };
    [[nodiscard]] const context& in_force() const noexcept { return context_; }
    void put_in_force(const context& c) noexcept { context_ = c; }
    void forbid_unwinding() noexcept { ++context_.no_unwind; }
    void allow_unwinding() noexcept { --context_.no_unwind; }

    /// What ends a wait that begins now, besides its own condition.
    struct wait_limit {
        time_point until;           // the earlier of its own deadline and the one in force
        bool by_context = false;    // it is the one in force
        bool interruptible = true;  // requests end it
    };
    [[nodiscard]] wait_limit limit_of_wait(time_point own) const noexcept {
        wait_limit limit{.until = own};
        if (context_.deadline < own && may_unwind()) {
            limit.until = context_.deadline;
            limit.by_context = true;
        }
        if ((requests() & stop_request) != 0 && !stop_in_force()) limit.interruptible = false;
        return limit;
    }

    /// Whether a stop was requested that ends waits: not in a shield, nor in a destructor that runs
    /// because of an exception.
    [[nodiscard]] bool stop_in_force() const noexcept {
        return (requests() & stop_request) != 0 && context_.shields == 0 && may_unwind();
    }

    /// Throws forced_unwind; returns only in a no_unwind scope.  Precondition: a stop is in force,
    /// or the deadline in force has passed.
    void unwind();

    /// An unwinding has come to its end, as it should.
    void end_unwinding() noexcept { unwinds_ = 0; }

    /// Scopes in which the owner must not suspend (no_suspend.hpp).  By the owner.
    void forbid_suspension() noexcept { ++no_suspend_; }
    void allow_suspension() noexcept { --no_suspend_; }
    void assert_may_suspend() const noexcept {
        VERGE_ASSERT(no_suspend_ == 0, "verge: a wait inside a no_suspend scope");
    }

    /// What ended the wait.  By the owner, after that.
    [[nodiscard]] wake_reason finish() const noexcept { return cell_.finish(); }

    /// Leaves the processor until the wait is claimed, or `deadline`.  By the owner.
    /// Throws std::bad_alloc or std::system_error if there is no timer: then the wait has ended.
    wake_reason suspend(epoch of, time_point deadline) {
        return operations_->suspend(*this, of, deadline);
    }

    /// Ends the wait `of`, if it has not ended.  By any thread.  After `ready`, call make_ready().
    [[nodiscard]] claim_result claim(epoch of, wake_reason why) noexcept {
        return cell_.claim(of, why);
    }

    /// Records that the owner has left its stack, or is about to sleep in the kernel.  False if the
    /// wait has ended: the caller makes it ready.  Then, and only then, no other thread does.
    [[nodiscard]] bool commit(epoch of) noexcept { return cell_.commit(of, interruptible_); }

    /// Resumes the owner of a wait that was claimed with `ready`.
    void make_ready() noexcept { operations_->make_ready(*this); }

    /// claim(), and make_ready() if that is needed.
    bool wake(epoch of, wake_reason why) noexcept {
        const claim_result result = claim(of, why);
        if (result == claim_result::ready) make_ready();
        return result != claim_result::lost;
    }

    /// The calling thread is about to block in the kernel.  By the owner.
    void before_block() noexcept { operations_->before_block(*this); }

    /// Sets a request and ends the wait, if it can be interrupted.  By any thread.
    void request(std::uint32_t what) noexcept {
        if (cell_.request(what) == claim_result::ready) make_ready();
    }

    [[nodiscard]] std::uint32_t requests() const noexcept { return cell_.requests(); }

    /// Clears an interrupt.  By the owner.
    void consume_interrupt() noexcept { cell_.take_away(interrupt_request); }

    /// What it waits for at this moment: for statistics and debuggers.  Once a wait has ended, its
    /// owner is runnable, also if it has not run yet.  By any thread.
    [[nodiscard]] wait_kind waiting_for() const noexcept {
        const wait_kind kind = waits_for.load(std::memory_order_relaxed);  // relaxed: for display
        return kind == wait_kind::stack || cell_.is_parked() ? kind : wait_kind::nothing;
    }

    // Written by the owner, and by its creator before the first run; for statistics and debuggers.
    std::atomic<wait_kind> waits_for{wait_kind::nothing};

protected:
    explicit constexpr waiter(const waiter_operations& operations) noexcept
        : operations_(&operations) {}
    ~waiter() = default;

    // Not out of a destructor that runs because of an exception: that would end the program.
    [[nodiscard]] bool may_unwind() const noexcept {
        return context_.no_unwind != 0 || std::uncaught_exceptions() == context_.uncaught;
    }

    context context_;              // written by the owner; before its first run, by its maker
    std::uint16_t unwinds_ = 0;    // thrown since the last that came to its end
    bool interruptible_ = false;   // the wait; written by the owner, read by commit()
    std::uint8_t no_suspend_ = 0;  // depth of no_suspend scopes; written by the owner
    const waiter_operations* operations_;  // changed only while no other thread knows the waiter
    park_cell cell_;
};

/// Blocks the calling thread, whose waiter is `self`, until the wait is claimed, or `deadline`.
/// make_ready() of that waiter must unpark `by`.
wake_reason block_thread(waiter& self, parker& by, waiter::epoch of, time_point deadline) noexcept;

/// The waiter of a plain thread.
class thread_waiter final : public waiter {
public:
    constexpr thread_waiter() noexcept : waiter(operations) {}

private:
    static const waiter_operations operations;
    verge::parker parker_;
};

/// A thread that runs other waiters in turn, such as a worker that runs fibers.
///
/// Such a thread makes a carrier and installs it; a plain thread has none.  Not inlined: the
/// compiler may keep the address of a thread-local variable across a switch of stacks, after which
/// the caller may be on another thread.  So nothing that was found through here() is used after a
/// wait.
class carrier {
public:
    carrier(const carrier&) = delete;
    carrier& operator=(const carrier&) = delete;

    /// The carrier of the calling thread, or nullptr.
    [[nodiscard]] static carrier* here() noexcept;
    /// By a thread, for itself; nullptr: it is a plain thread again.
    static void install(carrier* c) noexcept;

    /// Called before the calling thread blocks, once: for a thread without a carrier.
    static void call_before_block(void (*hook)() noexcept) noexcept;

protected:
    constexpr carrier() noexcept = default;
    ~carrier() = default;

    friend waiter& current() noexcept;
    waiter* current_ =
        nullptr;  // the waiter that runs; nullptr: the thread.  Written by the thread
};

/// The waiter that runs on the calling thread.  Not inlined: a fiber may resume on another thread.
[[nodiscard]] waiter& current() noexcept;

/// Records what a waiter waits for, for statistics and debuggers.
class wait_scope {
public:
    wait_scope(waiter& self, wait_kind what) noexcept {
        // A join is more specific than the word that it waits on.  relaxed, twice: for display.
        if (self.waits_for.load(std::memory_order_relaxed) != wait_kind::nothing) return;
        self.waits_for.store(what, std::memory_order_relaxed);
        self_ = &self;
    }
    ~wait_scope() {
        // relaxed: as above.
        if (self_ != nullptr) self_->waits_for.store(wait_kind::nothing, std::memory_order_relaxed);
    }
    wait_scope(const wait_scope&) = delete;
    wait_scope& operator=(const wait_scope&) = delete;

private:
    waiter* self_ = nullptr;
};

}  // namespace verge::detail::sync
