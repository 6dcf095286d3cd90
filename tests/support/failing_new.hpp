// support/failing_new.hpp -- lets the n-th allocation of this thread fail.
//
//     {
//         failing_new second(2);              // the second from here throws std::bad_alloc
//         EXPECT_THROW(f(), std::bad_alloc);
//     }                                       // and from here on none fails
//
// It replaces operator new for the whole program.  So one file of a program includes it as it is;
// the others first define VERGE_FAILING_NEW_ELSEWHERE.  A test that uses it stands in
// #if VERGE_CAN_REFUSE_MEMORY, support/build.hpp.  Valgrind's operator new cannot be replaced
// either: tests/valgrind runs no such test.

#pragma once

#include "support/build.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

#if VERGE_CAN_REFUSE_MEMORY

namespace verge {

class failing_new {
public:
    explicit failing_new(int nth) { countdown() = nth; }
    ~failing_new() { countdown() = 0; }
    failing_new(const failing_new&) = delete;
    failing_new& operator=(const failing_new&) = delete;

    // Whether it has failed.
    [[nodiscard]] bool struck() const { return countdown() == 0; }

    // For the operators below.
    static void* allocate(std::size_t size) noexcept {
        if (countdown() > 0 && --countdown() == 0) return nullptr;
        return std::malloc(size == 0 ? 1 : size);
    }

private:
    // How many allocations of this thread until one fails; 0: none will.
    static int& countdown() noexcept {
        static thread_local int left = 0;
        return left;
    }
};

}  // namespace verge

#ifndef VERGE_FAILING_NEW_ELSEWHERE

void* operator new(std::size_t size) {
    if (void* const memory = verge::failing_new::allocate(size)) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return verge::failing_new::allocate(size);
}
void* operator new[](std::size_t size) {
    return operator new(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    return verge::failing_new::allocate(size);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}

// For what is aligned to a cache line.
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

#endif  // VERGE_CAN_REFUSE_MEMORY
