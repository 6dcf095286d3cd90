// src/base/fork_guard.cpp -- the page that the kernel zeroes in every forked child.

#include <verge/base/detail/fork_guard.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/base/detail/pages.hpp>

#include <mutex>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace verge::detail {

namespace {

// The mark of this process, on the page that is zero in a child.  Never unmapped.
std::atomic<std::uint64_t>* wiped_word = nullptr;
// Marks given so far in this process and its ancestors: copied by fork, so a child's next mark
// differs from the mark of every object that it inherited.
std::uint64_t marks_given = 0;
constinit thread_mutex guard_lock;

// As in slot_registry.cpp: the lock is held across a fork.
[[maybe_unused]] const int held_over_forks =
    ::pthread_atfork([]() VERGE_NO_THREAD_SAFETY_ANALYSIS { guard_lock.lock(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { guard_lock.unlock(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { guard_lock.unlock(); });

}  // namespace

fork_guard::fork_guard() {
    const std::lock_guard hold(guard_lock);
    if (wiped_word == nullptr) {
        const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        void* const page = map_pages(bytes);
        // Refused by kernels before 4.14 only: then a child is not recognised.
        os::madvise(page, bytes, MADV_WIPEONFORK);
        wiped_word = static_cast<std::atomic<std::uint64_t>*>(page);
    }
    // relaxed, twice: under the lock; no other thread of this process sees it change.
    if (wiped_word->load(std::memory_order_relaxed) == 0) {
        wiped_word->store(++marks_given, std::memory_order_relaxed);
    }
    word_ = wiped_word;
    mark_ = wiped_word->load(std::memory_order_relaxed);  // relaxed: as above
}

}  // namespace verge::detail
