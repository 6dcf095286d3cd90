// src/fibers/stack_pool.cpp -- maps regions, carves guarded stacks out of them, and returns their
// memory.

#include <verge/base/detail/annotate.hpp>
#include <verge/base/detail/assert.hpp>
#include <verge/base/detail/kernel.hpp>
#include <verge/fibers/detail/stack_pool.hpp>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace verge::fibers::detail {

namespace os = verge::detail::os;

namespace {

using lock_scope = verge::detail::lock_scope<verge::detail::spin_lock>;

// MADV_GUARD_INSTALL and MADV_POPULATE_READ, which older headers lack.
constexpr int guard_install = 102;
constexpr int populate_read = 22;

constexpr std::size_t largest_stack = std::size_t{1} << 30;
constexpr std::size_t first_region = std::size_t{1} << 26;
constexpr std::size_t largest_region = std::size_t{1} << (sizeof(std::size_t) > 4 ? 32 : 27);

constexpr std::size_t colours = 16;
constexpr std::size_t cache_line = 64;

std::size_t page_size() noexcept {
    return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t round_up(std::size_t bytes, std::size_t page) noexcept {
    return (bytes + page - 1) / page * page;
}

std::size_t usable(std::size_t wanted) {
    if (wanted == 0 || wanted > largest_stack) {
        throw std::invalid_argument("stack_pool: stack_size is 0 or above 1 GiB");
    }
    return round_up(wanted, page_size());
}

void* map(std::size_t bytes) noexcept {
    return os::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
}

// False if the kernel does not accept many ranges at once.
bool advise_all(const iovec* ranges, std::size_t count, int advice) noexcept {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i)
        bytes += ranges[i].iov_len;
    const ssize_t done = os::process_madvise_self(ranges, count, advice);
    return done >= 0 && static_cast<std::size_t>(done) == bytes;
}

}  // namespace

// At the beginning of its mapping; its stack objects follow, then the first guard.
struct stack_pool::region {
    region* next;
    std::size_t bytes;   // of the mapping
    std::size_t slots;   // that fit into it
    std::size_t carved;  // so far, under the pool's lock; the others are untouched
    std::byte* first;    // guard

    [[nodiscard]] stack* stacks() noexcept { return reinterpret_cast<stack*>(this + 1); }
};

stack_pool::stack_pool(const options& wanted)
    : page_(page_size()),
      size_(usable(wanted.stack_size)),
      stride_(size_ + (wanted.guards ? page_ : 0)),
      max_stacks_(wanted.max_stacks),
      keep_(wanted.keep),
      next_slots_(std::max<std::size_t>(first_region / stride_, 1)) {
    if (wanted.guards) stats_.guard = probe();
}

stack_pool::~stack_pool() {
    VERGE_ASSERT(stats_.in_use == 0, "a stack outlives its pool");
    while (regions_ != nullptr)
        unmap(std::exchange(regions_, regions_->next));
}

// Which guard this kernel supports.  If it refuses a page for the test, take() finds out later.
// Emulators (qemu-user) accept any advice and ignore it: there, a page with a guard can be
// populated.
guard_kind stack_pool::probe() const noexcept {
    void* const page = map(page_);
    if (page == MAP_FAILED) return guard_kind::madvise;
    const bool taken = os::madvise(page, page_, guard_install) == 0;
    const bool without_effect =
        taken ? os::madvise(page, page_, populate_read) == 0 : errno == EINVAL;
    os::munmap(page, page_);
    return without_effect ? guard_kind::mprotect : guard_kind::madvise;
}

// ---- taking -------------------------------------------------------------------------------------

stack_pool::taking stack_pool::take() noexcept {
    {
        const lock_scope hold(lock_);
        if (stack* const s = free_stack()) return {s, stack_result::taken};
    }
    return make();
}

stack_result stack_pool::take(std::size_t wanted, stack_list& into) noexcept {
    if (wanted == 0) return stack_result::taken;
    {
        const lock_scope hold(lock_);
        std::size_t got = 0;
        for (; got < wanted; ++got) {
            stack* const s = free_stack();
            if (s == nullptr) break;
            into.push(s);
        }
        if (got > 0) return stack_result::taken;
    }
    const taking one = make();
    if (one.taken != nullptr) into.push(one.taken);
    return one.result;
}

stack* stack_pool::free_stack() noexcept {
    if (warm_.empty() && cold_.empty()) return nullptr;
    stack* const s = warm_.empty() ? cold_.pop() : warm_.pop();
    hand_out(*s);
    return s;
}

void stack_pool::hand_out(stack& s) noexcept {
    s.next = nullptr;
    s.in_use_ = true;
    ++stats_.in_use;
}

// Makes a stack, unless one was given back meanwhile.
stack_pool::taking stack_pool::make() noexcept {
    for (;;) {
        stack* s = nullptr;
        {
            const lock_scope hold(lock_);
            s = free_stack();
            if (s != nullptr) return {s, stack_result::taken};
            if (stats_.made >= max_stacks_) {
                ++stats_.refused_by_limit;
                return {nullptr, stack_result::limit};
            }
            s = unguarded_.empty() ? carve() : unguarded_.pop();
            if (s != nullptr) ++stats_.made;  // now, so that other threads do not exceed the limit
        }
        if (s != nullptr) {
            const bool guarded = install_guard(s->low - (stride_ - size_));
            const lock_scope hold(lock_);
            if (guarded) {
                hand_out(*s);
                return {s, stack_result::taken};
            }
            --stats_.made;
            ++stats_.refused_by_kernel;
            unguarded_.push(s);
            return {nullptr, stack_result::kernel};
        }
        if (!grow()) {
            const lock_scope hold(lock_);
            ++stats_.refused_by_kernel;
            return {nullptr, stack_result::kernel};
        }
    }
}

// The next slot of the first region, as a stack without a guard.
stack* stack_pool::carve() noexcept {
    region* const r = regions_;
    if (r == nullptr || r->carved == r->slots) return nullptr;
    const std::size_t i = r->carved++;
    std::byte* const end = r->first + (i + 1) * stride_;
    auto* const s = ::new (static_cast<void*>(r->stacks() + i)) stack;
    s->low = end - size_;
    s->top = end - i % colours * cache_line;
    s->next = nullptr;
    s->in_use_ = false;
    s->valgrind_ = verge::detail::register_stack(s->low, s->top);
    return s;
}

bool stack_pool::install_guard(std::byte* low) noexcept {
    guard_kind kind = guard_kind::none;
    {
        const lock_scope hold(lock_);
        kind = stats_.guard;
    }
    if (kind == guard_kind::none) return true;
    if (kind == guard_kind::madvise) {
        if (os::madvise(low, page_, guard_install) == 0) return true;
        if (errno != EINVAL) return false;
        // The kernel does not support it, or memory is locked now (mlockall).
        const lock_scope hold(lock_);
        stats_.guard = guard_kind::mprotect;
    }
    return os::mprotect(low, page_, PROT_NONE) == 0;
}

// ---- regions ------------------------------------------------------------------------------------

// Maps a region, unless another thread does so meanwhile.  False: the kernel refuses even one slot.
bool stack_pool::grow() noexcept {
    std::size_t slots = 0;
    {
        const lock_scope hold(lock_);
        slots = std::min(next_slots_, max_stacks_ - std::min(stats_.made, max_stacks_));
        if (slots == 0) return true;  // the limit: make() checks it
    }
    region* made = nullptr;
    // A smaller region may succeed: a limit on address space, or strict overcommit.
    for (; slots > 0 && made == nullptr; slots /= 2)
        made = map_region(slots);
    if (made == nullptr) return false;
    {
        const lock_scope hold(lock_);
        if (regions_ == nullptr || regions_->carved == regions_->slots) {
            made->next = std::exchange(regions_, made);
            ++stats_.mappings;
            next_slots_ =
                std::max(next_slots_, std::min(made->slots * 2, largest_region / stride_));
            return true;
        }
    }
    unmap(made);  // another thread was faster
    return true;
}

stack_pool::region* stack_pool::map_region(std::size_t slots) noexcept {
    const std::size_t objects = round_up(sizeof(region) + slots * sizeof(stack), page_);
    const std::size_t bytes = objects + slots * stride_;
    void* const memory = map(bytes);
    if (memory == MAP_FAILED) return nullptr;
    // A huge page would make a shallow stack cost 2 MiB.  Kernels without them refuse this:
    // harmless.
    os::madvise(memory, bytes, MADV_NOHUGEPAGE);
    return ::new (memory) region{.next = nullptr,
                                 .bytes = bytes,
                                 .slots = slots,
                                 .carved = 0,
                                 .first = static_cast<std::byte*>(memory) + objects};
}

void stack_pool::unmap(region* r) noexcept {
    for (std::size_t i = 0; i < r->carved; ++i)
        verge::detail::deregister_stack(r->stacks()[i].valgrind_);
    const std::size_t bytes = r->bytes;
    if (os::munmap(r, bytes) == 0) return;
    // It would split a mapping, and the process is at vm.max_map_count: free the pages at least.
    os::madvise(r, bytes, MADV_DONTNEED);
}

// ---- giving back --------------------------------------------------------------------------------

void stack_pool::give_back(stack* s) noexcept {
    stack_list one;
    one.push(s);
    give_back(one, 1);
}

void stack_pool::give_back(stack_list& from, std::size_t count) noexcept {
    stack_list surplus;
    if constexpr (verge::detail::has_asan || verge::detail::asks_valgrind) {
        // Frames of its last user may have left redzones poisoned.
        stack_list clean;
        for (std::size_t n = std::min(count, from.size()); n > 0; --n)
            clean.push(from.pop());
        while (!clean.empty()) {
            stack* const s = clean.pop();
            verge::detail::unpoison(s->low, size_);
            from.push(s);
        }
    }
    {
        const lock_scope hold(lock_);
        for (; count > 0 && !from.empty(); --count) {
            stack* const s = from.pop();
            VERGE_ASSERT(s->in_use_, "a stack is given back twice");
            if (warm_.size() >= keep_) {
                surplus.push(s);
                continue;
            }
            s->in_use_ = false;
            --stats_.in_use;
            warm_.push(s);
        }
    }
    while (!surplus.empty()) {
        stack_list released;
        release(surplus, released);
        const lock_scope hold(lock_);
        while (!released.empty()) {
            stack* const s = released.pop();
            s->in_use_ = false;
            --stats_.in_use;
            cold_.push(s);
        }
    }
}

// Returns the pages of some to the system; their guards stay.  Locked memory (mlock) stays as well.
void stack_pool::release(stack_list& some, stack_list& released) noexcept {
    iovec ranges[64];
    std::size_t count = 0;
    while (!some.empty() && count < std::size(ranges)) {
        stack* const s = some.pop();
        ranges[count++] = {s->low, size_};
        released.push(s);
    }
    if (count > 1 && advise_all(ranges, count, MADV_DONTNEED)) {
        return;
    }
    for (std::size_t i = 0; i < count; ++i)
        os::madvise(ranges[i].iov_base, ranges[i].iov_len, MADV_DONTNEED);
}

void stack_pool::trim() noexcept {
    region* idle = nullptr;
    std::size_t rounds = 0;
    {
        const lock_scope hold(lock_);
        if (warm_.size() + cold_.size() == stats_.made) {
            idle = std::exchange(regions_, nullptr);
            warm_ = {};
            cold_ = {};
            unguarded_ = {};
            stats_.made = 0;
            stats_.mappings = 0;
        }
        rounds = warm_.size();
    }
    while (idle != nullptr)
        unmap(std::exchange(idle, idle->next));
    // A few at a time, which count as in use meanwhile: a take() that reaches the limit misses
    // these at most.
    while (rounds > 0) {
        stack_list some;
        {
            const lock_scope hold(lock_);
            for (; rounds > 0 && some.size() < 64 && !warm_.empty(); --rounds)
                some.push(warm_.pop());
        }
        if (some.empty()) return;
        stack_list released;
        release(some, released);
        const lock_scope hold(lock_);
        while (!released.empty())
            cold_.push(released.pop());
    }
}

stack_pool_stats stack_pool::stats() const noexcept {
    const lock_scope hold(lock_);
    stack_pool_stats now = stats_;
    now.kept = warm_.size();
    return now;
}

}  // namespace verge::fibers::detail
