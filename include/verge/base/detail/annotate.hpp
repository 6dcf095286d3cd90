// verge/base/detail/annotate.hpp -- annotations for ASan, TSan and valgrind.
//
//     poison(slot, size)      the memory is free: access is reported (ASan, valgrind)
//     unpoison(slot, size)    it is in use again, uninitialized (to valgrind)
//     unpoison_kept(...)      it is in use again, with its old contents
//     happens_before(&word)   what this thread did so far happens before what another thread does
//     happens_after(&word)    ... after this call: an order that TSan cannot see otherwise
//     register_stack(...)     the memory is a separate stack (valgrind; for ASan and TSan see
//                             fibers/detail/stack_watch.hpp)
//
// For pools and for code that synchronizes through the kernel or by hand-written assembly.  It is
// not for silencing a report: std::atomic and locks need none of this.
//
// Each is a call of the tool's run-time library where the tool is compiled in, and a no-op
// otherwise.  Valgrind is not compiled in but runs any program: debug builds (no NDEBUG) call it
// through src/base/annotate.cpp, if its header was found when the library was built.
//
// ASan works in granules of 8 bytes: align what you poison.  Memory must be unpoisoned before
// munmap(), for the next mapping at that address; before free() it need not be.
//
// Thread safety: any thread.  Exceptions: none.

#pragma once

#include <cstddef>

// The tools' own declarations, as in <sanitizer/asan_interface.h> and <sanitizer/tsan_interface.h>.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void __asan_poison_memory_region(const volatile void* begin, std::size_t size);
void __asan_unpoison_memory_region(const volatile void* begin, std::size_t size);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace verge::detail {

#if defined(__has_feature)  // clang, and gcc from 14 on
inline constexpr bool has_asan = __has_feature(address_sanitizer);
inline constexpr bool has_tsan = __has_feature(thread_sanitizer);
#else
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool has_asan = true;
#else
inline constexpr bool has_asan = false;
#endif
#ifdef __SANITIZE_THREAD__
inline constexpr bool has_tsan = true;
#else
inline constexpr bool has_tsan = false;
#endif
#endif

#ifdef NDEBUG
inline constexpr bool asks_valgrind = false;
#else
inline constexpr bool asks_valgrind = !has_asan && !has_tsan;
#endif

/// Do nothing unless the program runs under valgrind's memcheck.
void valgrind_noaccess(const void* begin, std::size_t size) noexcept;
void valgrind_undefined(const void* begin, std::size_t size) noexcept;
void valgrind_defined(const void* begin, std::size_t size) noexcept;
/// Register and deregister a stack, by valgrind's id for it; 0 without valgrind.
[[nodiscard]] unsigned valgrind_stack(const void* low, const void* top) noexcept;
void valgrind_no_stack(unsigned number) noexcept;

inline void poison([[maybe_unused]] const void* begin, [[maybe_unused]] std::size_t size) noexcept {
    if constexpr (has_asan) __asan_poison_memory_region(begin, size);
    if constexpr (asks_valgrind) valgrind_noaccess(begin, size);
}

inline void unpoison([[maybe_unused]] const void* begin,
                     [[maybe_unused]] std::size_t size) noexcept {
    if constexpr (has_asan) __asan_unpoison_memory_region(begin, size);
    if constexpr (asks_valgrind) valgrind_undefined(begin, size);
}

inline void unpoison_kept([[maybe_unused]] const void* begin,
                          [[maybe_unused]] std::size_t size) noexcept {
    if constexpr (has_asan) __asan_unpoison_memory_region(begin, size);
    if constexpr (asks_valgrind) valgrind_defined(begin, size);
}

[[nodiscard]] inline unsigned register_stack([[maybe_unused]] const void* low,
                                             [[maybe_unused]] const void* top) noexcept {
    if constexpr (asks_valgrind) return valgrind_stack(low, top);
    return 0;
}

inline void deregister_stack([[maybe_unused]] unsigned number) noexcept {
    if constexpr (asks_valgrind) valgrind_no_stack(number);
}

inline void happens_before([[maybe_unused]] const void* address) noexcept {
    if constexpr (has_tsan) __tsan_release(const_cast<void*>(address));
}

inline void happens_after([[maybe_unused]] const void* address) noexcept {
    if constexpr (has_tsan) __tsan_acquire(const_cast<void*>(address));
}

}  // namespace verge::detail
