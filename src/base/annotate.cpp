#include <verge/base/detail/annotate.hpp>

#if !defined(NDEBUG) && __has_include(<valgrind/memcheck.h>)
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MAKE_MEM_NOACCESS(begin, size) (static_cast<void>(begin), static_cast<void>(size))
#define VALGRIND_MAKE_MEM_UNDEFINED(begin, size) (static_cast<void>(begin), static_cast<void>(size))
#define VALGRIND_MAKE_MEM_DEFINED(begin, size) (static_cast<void>(begin), static_cast<void>(size))
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

}  // namespace verge::detail
