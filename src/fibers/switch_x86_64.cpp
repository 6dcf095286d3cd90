// src/fibers/switch_x86_64.cpp -- the first frame of a stack for x86-64 (System V ABI).
//
// The switch itself is inlined: verge/fibers/detail/switch_stack.hpp.
//
// A new stack continues in verge_fiber_first_frame, which finds the arguments on the stack and in
// rbx.  For unwinders that frame has no caller (rip is undefined); for those that follow rbp, rbp
// is 0.

#include <verge/fibers/detail/execution.hpp>

#if defined(__x86_64__) && !defined(VERGE_FIBER_BOOST_CONTEXT)

#include <cstdint>
#include <new>

extern "C" {
void verge_fiber_first_frame() noexcept;
void verge_fiber_begin(verge::fibers::detail::execution::entry fn, void* argument,
                       verge::fibers::detail::execution* self) noexcept;
}

__asm__(R"(
    .pushsection .text
    .globl verge_fiber_first_frame
    .type verge_fiber_first_frame, @function
    .p2align 4
verge_fiber_first_frame:
    .cfi_startproc
    .cfi_undefined rip
    .cfi_undefined rbp
    popq %rdi
    popq %rsi
    movq %rbx, %rdx
    callq verge_fiber_begin@PLT
    ud2
    .cfi_endproc
    .size verge_fiber_first_frame, . - verge_fiber_first_frame
    .popsection
)");

extern "C" [[gnu::used]] void verge_fiber_begin(verge::fibers::detail::execution::entry fn,
                                                void* argument,
                                                verge::fibers::detail::execution* self) noexcept {
    verge::fibers::detail::execution::begin(fn, argument, *self);
}

namespace verge::fibers::detail {

namespace {

struct new_stack {
    void (*rip)() noexcept;
    void* rbx;
    void* rbp;
    execution::entry fn;
    void* argument;
};

}  // namespace

void* make_stack(std::byte*, std::byte* top, execution::entry fn, void* argument,
                 execution& self) noexcept {
    // The first frame begins at an address divisible by 16: its call then enters begin() with the
    // alignment that the ABI requires.
    std::byte* const end = top - reinterpret_cast<std::uintptr_t>(top) % 16;
    return ::new (static_cast<void*>(end - sizeof(new_stack)))
        new_stack{.rip = &verge_fiber_first_frame,
                  .rbx = &self,
                  .rbp = nullptr,
                  .fn = fn,
                  .argument = argument};
}

}  // namespace verge::fibers::detail

#endif
