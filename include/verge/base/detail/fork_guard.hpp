// verge/base/detail/fork_guard.hpp -- detects that an object is used in a forked child.
//
// A child has none of its parent's threads, and a lock that one of them held stays locked.
// So an object with threads checks this before it takes any lock.  The check costs one load: the
// word is on a page that the kernel zeroes in every child (MADV_WIPEONFORK).

#pragma once

#include <atomic>
#include <cstdint>

namespace verge::detail {

class fork_guard {
public:
    /// Records the calling process.  Throws std::bad_alloc.
    fork_guard();

    /// Whether the caller is in the process that constructed it.
    [[nodiscard]] bool same_process() const noexcept {
        // relaxed: it changes only by a fork, after which the child has one thread.
        return word_->load(std::memory_order_relaxed) == mark_;
    }

private:
    const std::atomic<std::uint64_t>* word_;
    std::uint64_t mark_;
};

}  // namespace verge::detail
