// src/io/thread_cache.cpp -- the free lists of each thread, and the depot between threads.

#include <verge/base/detail/spin_lock.hpp>
#include <verge/io/detail/thread_cache.hpp>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace verge::detail::io {

namespace {

// malloc gives 16 k + 8 bytes, so these are the sizes that waste nothing: 24, 40, 56 ...
constexpr std::size_t step = 16;
constexpr std::size_t classes = 20;
constexpr std::uint32_t bundle_size = 32;
constexpr std::size_t most_bundles = 1024;                // of a size, in the depot
constexpr std::size_t most_bytes = std::size_t{2} << 20;  // of a size, in the depot

constexpr std::size_t class_of(std::size_t size) noexcept {
    return (size + 7) / step;
}
constexpr std::size_t size_of_class(std::size_t index) noexcept {
    return index * step + 8;
}
static_assert(size_of_class(class_of(24)) == 24 && size_of_class(class_of(25)) == 40);

// Free memory.
struct block {
    block* next;
};

void free_bundle(block* first) noexcept {
    while (first != nullptr)
        ::operator delete(std::exchange(first, first->next));
}

// Full bundles of one size, shared by all threads.  No block is accessed under the lock, which
// would be a cache miss on another processor's line.  The lock is only tried: a thread that does
// not get it uses malloc.  So no thread waits here, not even in the child of a fork during which
// another thread held the lock.
struct alignas(64) depot {
    spin_lock lock;
    bool over = false;      // under lock, as all below: the program exits
    std::size_t count = 0;  // of bundles
    block* bundles[most_bundles] = {};

    // Takes a bundle; nullptr: there is none.
    block* take() noexcept {
        if (!lock.try_lock()) return nullptr;
        block* const first = count > 0 ? bundles[--count] : nullptr;
        lock.unlock();
        return first;
    }

    // False if the depot is full, over, or locked.
    bool give(block* first, std::size_t room) noexcept {
        if (!lock.try_lock()) return false;
        const bool wanted = !over && count < room;
        if (wanted) bundles[count++] = first;
        lock.unlock();
        return wanted;
    }
};

constinit depot depots[classes];

// Frees the depot's bundles when the program exits.
struct depot_cleaner {
    depot_cleaner() = default;
    depot_cleaner(const depot_cleaner&) = delete;
    depot_cleaner& operator=(const depot_cleaner&) = delete;
    ~depot_cleaner() {
        for (depot& d : depots) {
            if (!d.lock.try_lock()) continue;
            d.over = true;
            while (d.count > 0)
                free_bundle(d.bundles[--d.count]);
            d.lock.unlock();
        }
    }
};
const depot_cleaner at_exit;

constexpr std::size_t room_for(std::size_t index) noexcept {
    return std::min(most_bundles, most_bytes / (bundle_size * size_of_class(index)));
}

// One size of a thread: a bundle that it takes from and adds to, and a full one or none.  With two,
// it uses the depot at most once per 32 blocks.
struct shelf {
    block* open = nullptr;
    // Blocks in `open`.  `bundle_size` for a thread that is new or ends, so that it takes the slow
    // path.
    std::uint32_t count = bundle_size;
    std::uint32_t skip = 0;  // slow paths to skip the depot, after it was empty
    block* full = nullptr;
};

struct cache {
    shelf shelves[classes];
    bool registered = false;  // the cleaner below is constructed
    bool over = false;        // the cleaner has run
};

constinit thread_local cache own_cache;

// Frees the thread's blocks when it ends.
struct cleaner {
    cleaner() = default;
    cleaner(const cleaner&) = delete;
    cleaner& operator=(const cleaner&) = delete;
    ~cleaner() {
        own_cache.over = true;
        for (shelf& s : own_cache.shelves) {
            free_bundle(std::exchange(s.open, nullptr));
            free_bundle(std::exchange(s.full, nullptr));
            s.count = bundle_size;
        }
    }
    void touch() noexcept { own_cache.registered = true; }
};
thread_local cleaner own_cleaner;

// Takes the first block of `open`, which is not empty.
void* take_first(shelf& s) noexcept {
    block* const first = s.open;
    s.open = first->next;
    --s.count;
    // The next block may be in another processor's cache.  (Prefetching nullptr is slow.)
    if (s.open != nullptr) __builtin_prefetch(s.open, 1);
    return first;
}

// The slow paths are out of line, so that the fast ones save no registers.

// `open` is empty: gets another bundle, or calls malloc.
[[gnu::noinline]] void* allocate_slowly(std::size_t index) {
    cache& own = own_cache;
    shelf& s = own.shelves[index];
    if (!own.over) {
        if (s.full != nullptr) {
            s.open = std::exchange(s.full, nullptr);
        } else if (s.skip > 0) {
            --s.skip;
        } else if (s.open = depots[index].take(); s.open == nullptr) {
            s.skip = bundle_size;
        }
    }
    if (s.open == nullptr) return ::operator new(size_of_class(index));
    if (!own.registered) own_cleaner.touch();
    s.count = bundle_size;
    return take_first(s);
}

// `open` is full, or the thread is new or ends.
[[gnu::noinline]] void deallocate_slowly(void* memory, std::size_t index) noexcept {
    cache& own = own_cache;
    if (own.over) {
        ::operator delete(memory);
        return;
    }
    if (!own.registered) own_cleaner.touch();
    shelf& s = own.shelves[index];
    block* const last = std::exchange(s.full, std::exchange(s.open, nullptr));
    if (last != nullptr && !depots[index].give(last, room_for(index))) free_bundle(last);
    s.open = ::new (memory) block{nullptr};
    s.count = 1;
}

}  // namespace

void* allocate_cached(std::size_t size) {
    const std::size_t index = class_of(size);
    if (index >= classes) return ::operator new(size);
    shelf& s = own_cache.shelves[index];
    if (s.open == nullptr) return allocate_slowly(index);
    return take_first(s);
}

void deallocate_cached(void* memory, std::size_t size) noexcept {
    const std::size_t index = class_of(size);
    if (index >= classes) {
        ::operator delete(memory);
        return;
    }
    shelf& s = own_cache.shelves[index];
    if (s.count == bundle_size) return deallocate_slowly(memory, index);
    s.open = ::new (memory) block{s.open};
    ++s.count;
}

}  // namespace verge::detail::io
