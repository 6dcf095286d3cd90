// verge/base/detail/fork_guard.hpp -- tells an object that it is in a forked child of its maker.
//
// A child has none of its parent's threads, and a lock that one of them held stays locked for ever.
// So an object with threads looks here before it takes any lock.  The look costs one load: the word
// stands on a page that the kernel empties in every child (MADV_WIPEONFORK).

#pragma once

#include <atomic>
#include <cstdint>

namespace verge::detail {

class fork_guard {
public:
    /// Remembers this process.  Throws std::bad_alloc.
    fork_guard();

    /// Whether this is the process that made it.
    [[nodiscard]] bool same_process() const noexcept {
        // relaxed: it changes only by a fork, where there is but one thread.
        return word_->load(std::memory_order_relaxed) == mark_;
    }

private:
    const std::atomic<std::uint64_t>* word_;
    std::uint64_t mark_;
};

}  // namespace verge::detail
