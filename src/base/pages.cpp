#include <verge/base/detail/pages.hpp>

#include <cstdint>
#include <new>

#include <sys/mman.h>

namespace verge::detail {

void* map_pages(std::size_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
}

void* map_huge_pages(std::size_t bytes) {
    constexpr std::size_t huge = std::size_t{2} << 20;
    auto* const memory = static_cast<std::byte*>(map_pages(bytes + huge));
    // Keeps the part that begins at a huge page.
    const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(memory) % huge) % huge;
    if (before > 0) unmap_pages(memory, before);
    if (before < huge) unmap_pages(memory + before + bytes, huge - before);
    ::madvise(memory + before, bytes, MADV_HUGEPAGE);  // refused: then in small ones
    return memory + before;
}

void unmap_pages(void* memory, std::size_t bytes) noexcept {
    if (::munmap(memory, bytes) == 0) return;
    // It would split a mapping, and the process has as many as it may: part with the pages at
    // least.
    ::madvise(memory, bytes, MADV_DONTNEED);
}

}  // namespace verge::detail
