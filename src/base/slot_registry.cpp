#include <verge/base/detail/slot_registry.hpp>

#include <pthread.h>

namespace verge::detail {

template class basic_slot_registry<registry_platform>;

constinit slot_registry slot_numbers;

namespace {

// A child of a fork has none of its parent's threads: a lock that one of them held would stay
// locked. So it is taken over the fork. Registered before main(): registering at first use could
// itself be cut in two by a fork. Without memory for it at that time, forks are as they were.
[[maybe_unused]] const int held_over_forks =
    ::pthread_atfork([]() VERGE_NO_THREAD_SAFETY_ANALYSIS { slot_numbers.before_fork(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { slot_numbers.after_fork(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { slot_numbers.after_fork(); });

}  // namespace

}  // namespace verge::detail
