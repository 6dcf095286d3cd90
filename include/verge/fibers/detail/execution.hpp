// verge/fibers/detail/execution.hpp -- one thread of control: a thread's own stack, or a fiber's.
//
//     thread_state here;                        // of this thread: where its errno lives, and so on
//     execution thread, fiber;
//     fiber.prepare(low, top, fn, arg);
//     thread.switch_to(fiber, here);            // runs fn(arg) on the other stack
//     ...                                       // fn called fiber.switch_to(thread, ...) or finish
//
// It is for the fiber scheduler, which knows what runs where.  It is not a scheduler, owns no stack
// and knows no thread: the caller of a switch names the source, the target and the thread.
//
// What belongs to an execution, and is restored when it continues, on whatever thread that is:
//   the stack, and the registers that a function must preserve (x86-64: rbx rbp r12-r15 rsp;
//   aarch64: x19-x29 d8-d15 sp);  errno;  the C++ exceptions being handled and the number of those
//   in flight (`throw;` and std::uncaught_exceptions()).
// What belongs to the thread: all thread_local variables, the signal mask, and the floating-point
//   control words (mxcsr, x87, fpcr).  A fiber that changes its rounding mode must change it back
//   before it switches; reloading mxcsr would cost 4 ns per switch, or 60 after an inexact result.
//   Shadow stacks (CET) are not switched.
//
// errno and the exception state are exchanged *before* the stack, by the thread that switches:
// nothing has to be looked up after the switch, when the thread may be another one, and nothing
// here reads a thread-local address that a compiler could keep in a register.  The caller must do
// the same: a thread_state& is not valid after a switch, since the execution may have resumed on
// another thread.  Get it again, through a function that is not inlined.
//
// Guarantees, under the names of the tests that hold them
//   GoesThereAndBack                        switch_to() returns when another switches back.
//   KeepsItsErrno                           also when it continues on another thread.
//   RethrowsOnAnotherThread                 a catch block may be left on another thread.
//   CountsItsOwnUncaughtExceptions          a destructor may switch during unwinding.
//   StartsOnAnAlignedStack                  16 bytes at the entry, as the ABI requires.
//   KeepsRegistersAsBoostContextDoes        the same random program has the same result.
//   AnUnwinderStopsAtTheEntry               backtraces and forced unwinding end there.
//   AnEntryThatReturnsAborts                with a message, in every build.
//
// States: running; suspended (left by switch_to(), or prepared); ended (left by finish()).  A
// default-constructed one is running: it represents the stack that first switches from it.
//
// A suspended stack, for debuggers: sp_ points to the saved registers, see switch_stack.hpp.
//
// Sanitizers: stack_watch.hpp reports every switch to ASan and TSan; the object is larger with
// them. Valgrind needs the stacks, not the switches: the code that makes a stack registers it
// (annotate.hpp).
//
// Thread safety: none.  What was done before an execution was left must happen before it continues
// on another thread: the queue that passes it on orders that.
// Exceptions: none; one that leaves an entry ends the program, as entries are noexcept.

#pragma once

#include <verge/base/detail/annotate.hpp>
#include <verge/fibers/detail/stack_watch.hpp>
#include <verge/fibers/detail/switch_stack.hpp>

#include <cstddef>
#include <utility>

namespace verge::fibers::detail {

class execution;

/// Where a thread keeps what belongs to the execution it runs.  Made on that thread, and used on
/// that thread only.
class thread_state {
public:
    /// Of the calling thread.
    thread_state() noexcept;

private:
    friend class execution;

    // The layout of __cxa_eh_globals: part of the C++ ABI.
    struct exception_state {
        void* caught;
        unsigned uncaught;
#ifdef __ARM_EABI_UNWINDER__
        void* propagating;
#endif
    };

    exception_state* exceptions_;
    int* errno_;
};

class execution {
public:
    /// Must not return: it ends with finish().
    using entry = void (*)(void* argument) noexcept;

    /// Represents the stack that first switches from it.
    execution() noexcept = default;
    /// A suspended one never continues, and the objects on its stack are not destroyed.
    ~execution() = default;
    execution(const execution&) = delete;
    execution& operator=(const execution&) = delete;

    /// `fn(argument)` runs on [low, top) at the first switch to it.  Not while it is running; it
    /// may be prepared again once it has ended.  Touches only the last page of the stack.
    void prepare(std::byte* low, std::byte* top, entry fn, void* argument) noexcept;

    /// Switches from this one, which is running, to `next`, which is suspended.  Returns when
    /// another execution switches back to this one.  `here` is of the calling thread, where `next`
    /// continues.
    void switch_to(execution& next, thread_state& here) noexcept;

    /// Ends this one and switches to `next`.  The objects on this stack are not destroyed.  `next`
    /// may reuse the stack and destroy this object.
    [[noreturn]] void finish(execution& next, thread_state& here) noexcept;

    /// Called by the first frame of a stack.
    static void begin(entry fn, void* argument, execution& self) noexcept;

private:
    void exchange_state(execution& next, thread_state& here) noexcept;

    // Written by the thread that leaves it, and by prepare(); read by the thread that switches to
    // it.
    void* sp_ = nullptr;  // while suspended: where its registers are saved
    void* caught_ = nullptr;
    unsigned uncaught_ = 0;
    int errno_ = 0;
#ifdef __ARM_EABI_UNWINDER__
    void* propagating_ = nullptr;
#endif
    [[no_unique_address]] stack_watch<verge::detail::has_asan || verge::detail::has_tsan> watch_;
};

/// Makes a stack whose first switch calls execution::begin(fn, argument, self); returns what to
/// load.
[[nodiscard]] void* make_stack(std::byte* low, std::byte* top, execution::entry fn, void* argument,
                               execution& self) noexcept;

inline void execution::exchange_state(execution& next, thread_state& here) noexcept {
    caught_ = std::exchange(here.exceptions_->caught, next.caught_);
    uncaught_ = std::exchange(here.exceptions_->uncaught, next.uncaught_);
#ifdef __ARM_EABI_UNWINDER__
    propagating_ = std::exchange(here.exceptions_->propagating, next.propagating_);
#endif
    errno_ = std::exchange(*here.errno_, next.errno_);
}

inline void execution::switch_to(execution& next, thread_state& here) noexcept {
    exchange_state(next, here);
    watch_.leave_for(next.watch_);
    switch_stack(&sp_, next.sp_);
    watch_.arrive();
}

}  // namespace verge::fibers::detail
