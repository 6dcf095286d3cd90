// src/base/annotate.cpp -- valgrind's client requests, compiled into debug builds only.

#include <verge/base/detail/annotate.hpp>

#if !defined(NDEBUG) && __has_include(<valgrind/memcheck.h>)
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MAKE_MEM_NOACCESS(begin, size) (static_cast<void>(begin), static_cast<void>(size))
#define VALGRIND_MAKE_MEM_UNDEFINED(begin, size) (static_cast<void>(begin), static_cast<void>(size))
#define VALGRIND_MAKE_MEM_DEFINED(begin, size) (static_cast<void>(begin), static_cast<void>(size))
#define VALGRIND_STACK_REGISTER(low, top) (static_cast<void>(low), static_cast<void>(top), 0U)
#define VALGRIND_STACK_DEREGISTER(number) (static_cast<void>(number))
#define RUNNING_ON_VALGRIND 0
#endif

namespace verge::detail {

void valgrind_noaccess(const void* begin, std::size_t size) noexcept {
    static_cast<void>(VALGRIND_MAKE_MEM_NOACCESS(begin, size));
}

void valgrind_undefined(const void* begin, std::size_t size) noexcept {
    static_cast<void>(VALGRIND_MAKE_MEM_UNDEFINED(begin, size));
}

void valgrind_defined(const void* begin, std::size_t size) noexcept {
    static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(begin, size));
}

unsigned valgrind_stack(const void* low, const void* top) noexcept {
    // Valgrind numbers stacks from 0, and our 0 means "none".
    return RUNNING_ON_VALGRIND != 0 ? VALGRIND_STACK_REGISTER(low, top) + 1 : 0;
}

void valgrind_no_stack(unsigned number) noexcept {
    if (number != 0) VALGRIND_STACK_DEREGISTER(number - 1);
}

}  // namespace verge::detail
