// verge/fibers/detail/stack_pool.hpp -- guarded stacks of one size, by the million.
//
//     stack_pool pool({.stack_size = 64 * 1024});
//     const auto [s, result] = pool.take();              // s == nullptr: see result
//     fiber.prepare(s->low, s->top, fn, arg);
//     ...
//     pool.give_back(s);
//
// It is for a scheduler: one pool per stack size, and one stack_list per worker that is filled and
// emptied in batches.  It is not a general allocator, and does not know what runs on a stack.
//
// Stacks are carved out of regions of 64 MiB and more: a region is one mapping, address space only,
// without huge pages.  What a region holds:
//
//     | stack objects | guard | usable ... | guard | usable ... | guard | usable ... |
//                             low       top
//
//   Memory    A stack that was never used costs its stack object (32 bytes), and its guard's part
//             of a page table.  One that ran shallow costs one page more: nothing of ours is
//             written to a stack.
//   Guards    MADV_GUARD_INSTALL (Linux 6.13) needs no mapping of its own.  If the kernel does not
//             support it, or the memory is locked, mprotect: two mappings per stack, of some
//             65,000 per process.  Past that a stack is refused; none is ever given out unguarded,
//             unless `guards` is false.
//   Colours   Tops are moved down by 0 to 15 cache lines, in turn: page-aligned tops would share
//             the same sets of the L1 cache.  This is part of `stack_size`: a stack has up to 960
//             bytes less than that.
//   Reuse     Up to `keep` free stacks keep their pages, and the last one given back is the next
//             one taken.  The pages of others are returned to the system (one madvise), as trim()
//             does for all of them.  trim() of a pool without a stack in use unmaps it altogether.
//
// Guarantees, under the names of the tests that hold them
//   AGuardStopsAnOverflow              of either kind, by SIGSEGV.
//   SaysWhetherTheLimitOrTheKernelRefused
//   ARefusalLeavesThePoolWhole         whichever system call fails; the call may be repeated.
//   AMillionStacksNeedFewMappings      with MADV_GUARD_INSTALL.
//   AShallowStackCostsOnePage
//   TrimGivesMemoryBack
//
// Thread safety: all of it.  No system call is made under the lock.  What was done before a stack
// was given back happens before what is done with it after it is taken again.
// Exceptions: construction only.

#pragma once

#include <verge/base/detail/spin_lock.hpp>
#include <verge/base/detail/thread_annotations.hpp>
#include <verge/base/stats.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

struct iovec;

namespace verge::fibers::detail {

/// One stack.  Lives outside of it, in its region.
struct stack {
    std::byte* low;  ///< The usable range is [low, top).
    std::byte* top;
    stack* next;  ///< For the list that holds it: a worker's, or the pool's.

private:
    friend class stack_pool;
    std::uint32_t valgrind_;  // its id in valgrind
    bool in_use_;
};
static_assert(sizeof(stack) <= 32);

/// Stacks linked through `next`, LIFO: the last one pushed is warm.  Owns nothing.
class stack_list {
public:
    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    void push(stack* s) noexcept {
        s->next = head_;
        head_ = s;
        ++size_;
    }
    /// Precondition: it is not empty.
    [[nodiscard]] stack* pop() noexcept {
        stack* const s = head_;
        head_ = s->next;
        --size_;
        return s;
    }

private:
    stack* head_ = nullptr;
    std::size_t size_ = 0;
};

enum class guard_kind {
    madvise,   // MADV_GUARD_INSTALL
    mprotect,  // costs two mappings per stack
    none,      // guards are off
};

enum class stack_result {
    taken,
    limit,   // max_stacks are in use, or lie in workers' lists
    kernel,  // it refused memory, a mapping or a guard
};

struct stack_pool_stats {
    std::uint64_t mappings = 0;
    std::uint64_t made = 0;
    std::uint64_t in_use = 0;
    std::uint64_t kept = 0;
    std::uint64_t refused_by_limit = 0;
    std::uint64_t refused_by_kernel = 0;
    guard_kind guard = guard_kind::none;

    template <stat_visitor Visitor>
    void visit(Visitor&& v) const {
        v("mappings", stat_kind::gauge, mappings, "regions that stacks are carved out of");
        v("made", stat_kind::gauge, made, "stacks that exist, in use and free");
        v("in_use", stat_kind::gauge, in_use, "stacks taken and not given back");
        v("kept", stat_kind::gauge, kept, "free stacks that keep their memory");
        v("refused_by_limit", stat_kind::counter, refused_by_limit, "stacks refused: max_stacks");
        v("refused_by_kernel", stat_kind::counter, refused_by_kernel,
          "stacks refused: no memory, mapping or guard");
        v("guard", stat_kind::gauge, static_cast<std::uint64_t>(guard),
          "how stacks are guarded: 0 madvise, 1 mprotect, 2 not at all");
    }
};

class stack_pool {
public:
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    struct options {
        std::size_t stack_size = std::size_t{64} * 1024;  ///< Rounded up to pages.
        std::size_t max_stacks = unlimited;
        std::size_t keep = 1024;  ///< Free stacks that keep the memory they touched.
        bool guards = true;
    };

    struct taking {
        stack* taken = nullptr;
        stack_result result = stack_result::taken;
    };

    /// Maps nothing yet.  Throws std::invalid_argument if stack_size is 0 or above 1 GiB.
    explicit stack_pool(const options& wanted);
    /// All stacks must have been given back.
    ~stack_pool();
    stack_pool(const stack_pool&) = delete;
    stack_pool& operator=(const stack_pool&) = delete;

    [[nodiscard]] taking take() noexcept;
    void give_back(stack* s) noexcept;

    /// Moves up to `wanted` free stacks to `into`.  If there are none it makes one, and only one,
    /// since the others may not be needed.  Returns `taken` unless `into` got none.
    stack_result take(std::size_t wanted, stack_list& into) noexcept;
    /// Takes `count` stacks back from the front of the list, or all there are.
    void give_back(stack_list& from, std::size_t count) noexcept;

    /// Returns the memory of all free stacks to the system.  O(free stacks).
    void trim() noexcept;

    [[nodiscard]] stack_pool_stats stats() const noexcept;

private:
    struct region;

    [[nodiscard]] stack* free_stack() noexcept VERGE_REQUIRES(lock_);
    [[nodiscard]] stack* carve() noexcept VERGE_REQUIRES(lock_);
    void hand_out(stack& s) noexcept VERGE_REQUIRES(lock_);
    [[nodiscard]] taking make() noexcept;
    [[nodiscard]] bool install_guard(std::byte* low) noexcept;
    [[nodiscard]] bool grow() noexcept;
    [[nodiscard]] region* map_region(std::size_t slots) noexcept;
    void unmap(region* r) noexcept;
    void release(stack_list& some, stack_list& released) noexcept;
    [[nodiscard]] guard_kind probe() const noexcept;

    const std::size_t page_;
    const std::size_t size_;    // of the usable part, with its colours
    const std::size_t stride_;  // with its guard
    const std::size_t max_stacks_;
    const std::size_t keep_;

    mutable verge::detail::spin_lock lock_;
    region* regions_ VERGE_GUARDED_BY(lock_) = nullptr;  // only the first may have free slots
    stack_list warm_ VERGE_GUARDED_BY(lock_);            // free, with their memory
    stack_list cold_ VERGE_GUARDED_BY(lock_);            // free, without
    stack_list unguarded_ VERGE_GUARDED_BY(lock_);       // carved, but the guard was refused
    std::size_t next_slots_ VERGE_GUARDED_BY(lock_);     // of the next region
    stack_pool_stats stats_ VERGE_GUARDED_BY(lock_);
};

}  // namespace verge::fibers::detail
