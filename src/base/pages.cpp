#include <verge/base/detail/pages.hpp>

#include <new>

#include <sys/mman.h>

namespace verge::detail {

void* map_pages(std::size_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
}

void unmap_pages(void* memory, std::size_t bytes) noexcept {
    if (::munmap(memory, bytes) == 0) return;
    // It would split a mapping, and the process has as many as it may: part with the pages at
    // least.
    ::madvise(memory, bytes, MADV_DONTNEED);
}

}  // namespace verge::detail
