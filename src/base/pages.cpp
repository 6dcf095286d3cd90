// src/base/pages.cpp -- mmap and munmap, with and without huge pages.

#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/pages.hpp>

#include <cstdint>
#include <new>

#include <sys/mman.h>

namespace verge::detail {

void* map_pages(std::size_t bytes) {
    void* const memory =
        os::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
}

void* map_huge_pages(std::size_t bytes) {
    constexpr std::size_t huge = std::size_t{2} << 20;
    auto* const memory = static_cast<std::byte*>(map_pages(bytes + huge));
    // Keep the part that is aligned to a huge page.
    const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(memory) % huge) % huge;
    if (before > 0) unmap_pages(memory, before);
    if (before < huge) unmap_pages(memory + before + bytes, huge - before);
    os::madvise(memory + before, bytes, MADV_HUGEPAGE);  // if refused, small pages do
    return memory + before;
}

void unmap_pages(void* memory, std::size_t bytes) noexcept {
    if (os::munmap(memory, bytes) == 0) return;
    // ENOMEM: it would split a mapping, and the process is at vm.max_map_count.  At least free the
    // pages.
    os::madvise(memory, bytes, MADV_DONTNEED);
}

}  // namespace verge::detail
