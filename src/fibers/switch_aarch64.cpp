// src/fibers/switch_aarch64.cpp -- the stack switch for aarch64 (AAPCS64).
//
// A suspended stack, from its saved pointer upwards, 8 bytes each:
//     x19 x20  x21 x22  x23 x24  x25 x26  x27 x28  x29 x30  d8 d9  d10 d11  d12 d13  d14 d15
// x30 is the address to continue at.  See switch_x86_64.cpp for the first frame.
//
// It ends in `ret`: with branch target identification (BTI) an indirect jump may only reach a
// marked instruction, and the one after a call is not marked.  A signed return address (PAC) is
// checked by the function that signed it.

#include <verge/fibers/detail/execution.hpp>

#if defined(__aarch64__) && !defined(VERGE_FIBER_BOOST_CONTEXT)

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
    .type verge_fiber_switch, %function
    .p2align 6
verge_fiber_switch:
    .cfi_startproc
    sub sp, sp, #160
    .cfi_def_cfa_offset 160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    .cfi_offset x19, -160
    .cfi_offset x20, -152
    .cfi_offset x21, -144
    .cfi_offset x22, -136
    .cfi_offset x23, -128
    .cfi_offset x24, -120
    .cfi_offset x25, -112
    .cfi_offset x26, -104
    .cfi_offset x27, -96
    .cfi_offset x28, -88
    .cfi_offset x29, -80
    .cfi_offset x30, -72
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    .cfi_def_cfa_offset 0
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x23
    .cfi_restore x24
    .cfi_restore x25
    .cfi_restore x26
    .cfi_restore x27
    .cfi_restore x28
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size verge_fiber_switch, . - verge_fiber_switch

    .globl verge_fiber_first_frame
    .type verge_fiber_first_frame, %function
    .p2align 4
verge_fiber_first_frame:
    .cfi_startproc
    .cfi_undefined x30
    .cfi_undefined x29
    mov x0, x19
    mov x1, x20
    mov x2, x21
    bl verge_fiber_begin
    brk #0
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
    void* x19;
    void* x20;
    void* x21;
    void* x22_to_x28[7];
    void* x29;
    void (*x30)() noexcept;
    double d8_to_d15[8];
};
static_assert(sizeof(saved_registers) == 160);

}  // namespace

void* make_stack(std::byte*, std::byte* top, execution::entry fn, void* argument,
                 execution& self) noexcept {
    std::byte* const end = top - reinterpret_cast<std::uintptr_t>(top) % 16;
    auto* const saved = ::new (static_cast<void*>(end - sizeof(saved_registers))) saved_registers{};
    saved->x19 = reinterpret_cast<void*>(fn);
    saved->x20 = argument;
    saved->x21 = &self;
    saved->x30 = &verge_fiber_first_frame;
    return saved;
}

}  // namespace verge::fibers::detail

#endif
