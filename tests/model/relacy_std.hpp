// What every model needs: relacy, the std names that our headers use under it, and explore().
// Include it before the header that is explored.

#pragma once

#include <atomic>
#include <cstdio>

#include <relacy/relacy.hpp>

// Relacy watches the heap through macros that break `= delete` and placement new.
#undef delete
#undef new
#undef free
#undef malloc

// Relacy replaces the plain operator delete only; the compiler calls the sized one.
void operator delete(void* memory, std::size_t) noexcept {
    ::operator delete(memory);
}

// Relacy turns std::memory_order_x into "std::mo_x, <where>"; give std those names.
namespace std {
using rl::mo_acq_rel;
using rl::mo_acquire;
using rl::mo_relaxed;
using rl::mo_release;
using rl::mo_seq_cst;
}  // namespace std

/// Runs the suite `iterations` times, or through all interleavings for a full search (0).
template <class Suite>
bool explore(rl::scheduler_type_e how, rl::iteration_t iterations) {
    rl::test_params params;
    params.search_type = how;
    params.iteration_count = iterations;
    params.execution_depth_limit = 20'000;
    return rl::simulate<Suite>(params);
}
