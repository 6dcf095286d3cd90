// verge/base/detail/pages.hpp -- memory from mmap, and back to the system.

#pragma once

#include <cstddef>

namespace verge::detail {

/// Zeroed memory of at least `bytes`, aligned to a page; resident only where it is touched.
/// Throws std::bad_alloc if the system refuses.
[[nodiscard]] void* map_pages(std::size_t bytes);

/// The same in huge pages, if the system has them: touching one byte may make 2 MiB resident, but
/// a walk through all of it costs fewer TLB misses.  `bytes` is a multiple of the page size.
[[nodiscard]] void* map_huge_pages(std::size_t bytes);

/// Returns it, or a part of it in whole pages, to the system at once.
void unmap_pages(void* memory, std::size_t bytes) noexcept;

}  // namespace verge::detail
