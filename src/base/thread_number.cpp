// src/base/thread_number.cpp -- gives each thread its number.

#include <verge/base/detail/in_place.hpp>
#include <verge/base/detail/thread_number.hpp>

#include <atomic>
#include <cstdint>

#include <pthread.h>

namespace verge::detail {

namespace {

std::atomic<std::uint64_t> numbers_given{0};

// The thread of a forked child gets a new number: a lock that is biased to the forking thread must
// find that its owner has ended.  Registered before main(), as in slot_registry.cpp.
[[maybe_unused]] const int new_in_children =
    ::pthread_atfork(nullptr, nullptr, [] { in_place::own.number = 0; });

}  // namespace

constinit thread_local in_place::own_facts in_place::own;

unsigned in_place::new_number() noexcept {
    // relaxed: only uniqueness matters.
    const std::uint64_t given = numbers_given.fetch_add(1, std::memory_order_relaxed) + 1;
    own.number = static_cast<unsigned>(given < shared_number ? given : given | shared_number);
    return own.number;
}

[[gnu::noinline]] unsigned thread_number() noexcept {
    return in_place::thread_number();
}

}  // namespace verge::detail
