// bench/support/keep.hpp -- keeps the optimiser from removing what is measured.

#pragma once

namespace bench {

/// All memory counts as read and written here: nothing is carried in registers across a call.
inline void clobber_memory() noexcept {
    asm volatile("" : : : "memory");
}

/// The value counts as used.
inline void keep(unsigned long value) noexcept {
    asm volatile("" : : "r"(value) : "memory");
}

}  // namespace bench
