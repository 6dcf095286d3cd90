// verge/io/detail/thread_cache.hpp -- memory for operations, cached per thread.
//
// Each thread keeps up to 64 free blocks of each size, in steps of 16 bytes, and passes more to
// other threads through a depot: a steady state allocates nothing.  A thread's blocks are freed
// when it ends.
//
// Not inline: code that may resume on another thread must not cache the address of thread-local
// data.

#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace verge::detail::io {

/// Allocates a block, aligned for any type up to max_align_t.  Throws std::bad_alloc.
[[nodiscard]] void* allocate_cached(std::size_t size);
/// Frees a block of allocate_cached(size), on any thread.
void deallocate_cached(void* memory, std::size_t size) noexcept;

template <class T>
inline constexpr bool is_std_allocator = false;
template <class T>
inline constexpr bool is_std_allocator<std::allocator<T>> = true;

/// Memory for one Op: from the thread's cache, or from the user's allocator.
template <class Op, class Allocator>
struct op_memory {
    static constexpr bool cached =
        is_std_allocator<Allocator> && alignof(Op) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    using rebound = typename std::allocator_traits<Allocator>::template rebind_alloc<Op>;
    using traits = std::allocator_traits<rebound>;

    template <class... Args>
    [[nodiscard]] static Op* create(const Allocator& allocator, Args&&... args) {
        if constexpr (cached) {
            void* const memory = allocate_cached(sizeof(Op));
            try {
                return ::new (memory) Op(std::forward<Args>(args)...);
            } catch (...) {
                deallocate_cached(memory, sizeof(Op));
                throw;
            }
        } else {
            rebound own(allocator);
            typename traits::pointer memory = traits::allocate(own, 1);
            try {
                return ::new (static_cast<void*>(std::to_address(memory)))
                    Op(std::forward<Args>(args)...);
            } catch (...) {
                traits::deallocate(own, memory, 1);
                throw;
            }
        }
    }

    static void destroy(const Allocator& allocator, Op* op) noexcept {
        std::destroy_at(op);
        if constexpr (cached) {
            deallocate_cached(op, sizeof(Op));
        } else {
            rebound own(allocator);
            traits::deallocate(own, std::pointer_traits<typename traits::pointer>::pointer_to(*op),
                               1);
        }
    }
};

}  // namespace verge::detail::io
