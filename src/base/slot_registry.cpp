// src/base/slot_registry.cpp -- the process-wide slot registry, held across forks.

#include <verge/base/detail/slot_registry.hpp>

#include <pthread.h>

namespace verge::detail {

template class basic_slot_registry<registry_platform>;

constinit slot_registry slot_numbers;

namespace {

// A forked child has none of its parent's threads: a lock that one of them held would stay locked.
// So the lock is held across the fork.  Registered before main(): a fork could interrupt
// a registration at first use.  If pthread_atfork fails for lack of memory, forks are unprotected.
[[maybe_unused]] const int held_over_forks =
    ::pthread_atfork([]() VERGE_NO_THREAD_SAFETY_ANALYSIS { slot_numbers.before_fork(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { slot_numbers.after_fork(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { slot_numbers.after_fork(); });

}  // namespace

}  // namespace verge::detail
