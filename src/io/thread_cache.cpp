#include <verge/io/detail/thread_cache.hpp>

#include <cstdint>
#include <new>
#include <utility>

namespace verge::detail {

namespace {

// malloc gives 16 k + 8 bytes, so these are the sizes that waste nothing: 24, 40, 56 ...
constexpr std::size_t step = 16;
constexpr std::size_t classes = 20;
constexpr std::uint32_t most = 64;

constexpr std::size_t class_of(std::size_t size) noexcept {
    return (size + 7) / step;
}
constexpr std::size_t size_of_class(std::size_t index) noexcept {
    return index * step + 8;
}
static_assert(size_of_class(class_of(24)) == 24 && size_of_class(class_of(25)) == 40);

struct block {
    block* next;
};

struct cache {
    block* free[classes] = {};
    std::uint32_t count[classes] = {};
    bool registered = false;  // the cleaner below will come
    bool over = false;        // it has been here
};

constinit thread_local cache own_cache;

// Frees the thread's blocks when it ends.
struct cleaner {
    cleaner() = default;
    cleaner(const cleaner&) = delete;
    cleaner& operator=(const cleaner&) = delete;
    ~cleaner() {
        own_cache.over = true;
        for (block*& list : own_cache.free) {
            while (list != nullptr)
                ::operator delete(std::exchange(list, list->next));
        }
    }
    void touch() noexcept { own_cache.registered = true; }
};
thread_local cleaner own_cleaner;

}  // namespace

void* allocate_cached(std::size_t size) {
    const std::size_t index = class_of(size);
    if (index >= classes) return ::operator new(size);
    cache& own = own_cache;
    block* const first = own.free[index];
    if (first == nullptr) return ::operator new(size_of_class(index));
    own.free[index] = first->next;
    --own.count[index];
    return first;
}

void deallocate_cached(void* memory, std::size_t size) noexcept {
    const std::size_t index = class_of(size);
    cache& own = own_cache;
    if (index >= classes || own.count[index] >= most || own.over) {
        ::operator delete(memory);
        return;
    }
    if (!own.registered) own_cleaner.touch();
    own.free[index] = ::new (memory) block{own.free[index]};
    ++own.count[index];
}

}  // namespace verge::detail
