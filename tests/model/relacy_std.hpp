// What every model needs: relacy, the std names that our headers use under it, and explore().
// Include it before the header that is explored.

#pragma once

#include <verge/base/detail/os_thread.hpp>  // first: relacy has macros of the names in it

#include <atomic>
#include <cstdio>
#include <typeinfo>

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

// Relacy's replacements are inline.  One that is inlined everywhere is missing from the program,
// and libstdc++ frees with its own what was allocated with relacy's: so all of them are kept.
[[gnu::used]] inline void* (*const kept_new)(std::size_t) = &::operator new;
[[gnu::used]] inline void* (*const kept_new_array)(std::size_t) = &::operator new[];
[[gnu::used]] inline void (*const kept_delete)(void*) noexcept = &::operator delete;
[[gnu::used]] inline void (*const kept_delete_array)(void*) noexcept = &::operator delete[];

// Relacy turns std::memory_order_x into "std::mo_x, <where>"; give std those names.
namespace std {
using rl::mo_acq_rel;
using rl::mo_acquire;
using rl::mo_relaxed;
using rl::mo_release;
using rl::mo_seq_cst;
}  // namespace std

/// How to go through a suite's interleavings: all of them, or some.
inline constexpr struct every_one {
    template <class Suite>
    using scheduler = rl::full_search_scheduler<Suite::params::thread_count>;
    static constexpr auto type = rl::fair_full_search_scheduler_type;
} every;
inline constexpr struct at_random {
    template <class Suite>
    using scheduler = rl::random_scheduler<Suite::params::thread_count>;
    static constexpr auto type = rl::random_scheduler_type;
} random_ones;

/// Runs the suite: `iterations` times at random, or 0 for every one.  As rl::simulate(), which
/// compiles all of relacy's schedulers for each suite: that takes three times as long.
template <class Suite, class How>
bool explore(How, rl::iteration_t iterations) {
    using scheduler = typename How::template scheduler<Suite>;
    rl::test_params params;
    params.test_name = typeid(Suite).name();
    params.search_type = How::type;
    params.iteration_count = iterations;
    params.execution_depth_limit = 20'000;
    rl::ostringstream failed_state;
    if (rl::run_test<Suite, scheduler>(params, failed_state, false) ==
        Suite::params::expected_result) {
        std::printf("%s: %llu iterations\n", params.test_name.c_str(),
                    static_cast<unsigned long long>(params.stop_iteration));
        return true;
    }
    // The interleaving that failed, once more, with its history.
    std::printf("%s:\n", params.test_name.c_str());
    std::fflush(stdout);
    params.initial_state = failed_state.str();
    params.collect_history = true;
    rl::ostringstream unused;
    rl::run_test<Suite, scheduler>(params, unused, true);
    return false;
}
