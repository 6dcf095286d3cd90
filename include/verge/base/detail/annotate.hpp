// verge/base/detail/annotate.hpp -- what ASan, TSan and valgrind cannot find out by themselves.
//
//     poison(slot, size)      the memory is free: touching it is reported (ASan, valgrind)
//     unpoison(slot, size)    it is in use again, and holds nothing yet (to valgrind)
//     unpoison_kept(...)      it is in use again, and holds what it held
//     happens_before(&word)   what this thread did so far is seen by threads that come
//     happens_after(&word)    ... here later: an order TSan has no other way to know
//     register_stack(...)     the memory is a stack of its own (valgrind; ASan and TSan are told at
//                             each switch, see fiber/detail/stack_watch.hpp)
//
// For pools and for code that synchronizes through the kernel or by hand-written assembly.  It is
// not for silencing a report: std::atomic and locks need none of this.
//
// Each is a call of the tool's run-time library where the tool is compiled in, and nothing at all
// otherwise.  Valgrind is not compiled in but runs any program: debug builds (no NDEBUG) ask it
// through src/base/annotate.cpp, if its header was found when the library was built.
//
// ASan counts in granules of 8 bytes: align what you poison.  Memory that goes back to mmap's pool
// must be unpoisoned first, for its next owner; memory for free() need not be.
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
/// Return and take a number by which valgrind knows the stack; 0 without valgrind.
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
