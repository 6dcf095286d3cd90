// verge/fibers/detail/switch_stack.hpp -- the stack switch itself.
//
// On x86-64 it is inlined.  A function call that ends in a jump would leave the return stack buffer
// one entry too long, and every return after it would be mispredicted (a yield took twice as long);
// one that ends in `ret` is mispredicted whenever the other stack continues at another place, as a
// new one does.  Inlined, with an indirect jump, calls and returns stay balanced, and the jump is
// predicted by its history.
//
// A suspended stack, from its saved pointer upwards:   address to continue at   rbx   rbp The
// compiler saves all other registers, if they hold something.
//
// On other processors it is a function: src/fibers/switch_*.cpp.

#pragma once

namespace verge::fibers::detail {

#if defined(__x86_64__) && !defined(VERGE_FIBER_BOOST_CONTEXT)

#ifdef __AVX512F__
#define VERGE_MORE_REGISTERS                                                                      \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",   \
        "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", \
        "k7"
#else
#define VERGE_MORE_REGISTERS
#endif

/// Saves this stack's pointer in *save and continues where `load` was saved.
[[gnu::always_inline]] inline void switch_stack(void** save, void* load) noexcept {
    // 128 bytes below the stack pointer belong to the function this is inlined into (red zone).
    __asm__ volatile(
        "leaq -128(%%rsp), %%rsp\n\t"
        "pushq %%rbp\n\t"
        "pushq %%rbx\n\t"
        "leaq 1f(%%rip), %%rax\n\t"
        "pushq %%rax\n\t"
        "movq %%rsp, (%0)\n\t"
        "movq %1, %%rsp\n\t"
        "popq %%rax\n\t"
        "popq %%rbx\n\t"
        "popq %%rbp\n\t"
        "jmpq *%%rax\n"
        "1:\n\t"
        "leaq 128(%%rsp), %%rsp"
        : "+D"(save), "+S"(load)
        :
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
          "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
          "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)",
          "st(7)", "memory", "cc" VERGE_MORE_REGISTERS);
}

#undef VERGE_MORE_REGISTERS

#else

extern "C" {
/// Saves the registers on this stack and its pointer in *save; continues where `load` was saved.
void verge_fiber_switch(void** save, void* load) noexcept;
}

inline void switch_stack(void** save, void* load) noexcept {
    verge_fiber_switch(save, load);
}

#endif

}  // namespace verge::fibers::detail
