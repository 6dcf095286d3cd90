// The operators new of this program.  In a file of their own, where g++ cannot inline one half of a
// pair and take the other for a mismatch.

#include "support/failing_new.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

#ifndef VERGE_FAILING_NEW_ELSEWHERE

// Those of failing_new.hpp have no alignment; a worker is aligned to a cache line.
void* operator new(std::size_t size, std::align_val_t alignment) {
    void* const probe = verge::failing_new::allocate(1);
    if (probe == nullptr) throw std::bad_alloc();
    std::free(probe);
    const auto step = static_cast<std::size_t>(alignment);
    void* const memory = std::aligned_alloc(step, (size + step - 1) / step * step);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return operator new(size, alignment);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

#endif  // VERGE_FAILING_NEW_ELSEWHERE
