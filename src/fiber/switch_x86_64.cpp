// The stack switch for x86-64 (System V ABI).
//
// A suspended stack, from its saved pointer upwards, 8 bytes each:
//     r15  r14  r13  r12  rbx  rbp  address to go on at
//
// It ends in a jump and not in `ret`: the processor predicts a return to where the last call came
// from, which is on the stack that was left.
//
// A new stack "goes on" in verge_fiber_first_frame, with the arguments in preserved registers.  For
// unwinders that frame has no caller (rip is undefined), and for those that follow rbp it is 0.

#include <verge/fiber/detail/execution.hpp>

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
    .globl verge_fiber_switch
    .type verge_fiber_switch, @function
    .p2align 6
verge_fiber_switch:
    .cfi_startproc
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    jmpq *%rcx
    .cfi_endproc
    .size verge_fiber_switch, . - verge_fiber_switch

    .globl verge_fiber_first_frame
    .type verge_fiber_first_frame, @function
    .p2align 4
verge_fiber_first_frame:
    .cfi_startproc
    .cfi_undefined rip
    .cfi_undefined rbp
    movq %r12, %rdi
    movq %r13, %rsi
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

struct saved_registers {
    void* r15;
    void* r14;
    void* r13;
    void* r12;
    void* rbx;
    void* rbp;
    void (*rip)() noexcept;
};

}  // namespace

void* make_stack(std::byte*, std::byte* top, execution::entry fn, void* argument,
                 execution& self) noexcept {
    // The first frame begins at an address divisible by 16: its call then enters begin() as the ABI
    // has it.
    std::byte* const end = top - reinterpret_cast<std::uintptr_t>(top) % 16;
    return ::new (static_cast<void*>(end - sizeof(saved_registers)))
        saved_registers{.r15 = nullptr,
                        .r14 = nullptr,
                        .r13 = argument,
                        .r12 = reinterpret_cast<void*>(fn),
                        .rbx = &self,
                        .rbp = nullptr,
                        .rip = &verge_fiber_first_frame};
}

}  // namespace verge::fibers::detail

#endif
