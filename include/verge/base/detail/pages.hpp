// verge/base/detail/pages.hpp -- memory straight from the system, and back to it.

#pragma once

#include <cstddef>

namespace verge::detail {

/// Zeroed memory of at least `bytes`, aligned to a page; resident only where it is touched.
/// Throws std::bad_alloc if the system refuses.
[[nodiscard]] void* map_pages(std::size_t bytes);

/// The same in huge pages, if the system has them: touching any of it may make 2 MiB resident, and
/// walking through all of it costs fewer misses.  `bytes` is a multiple of the page size.
[[nodiscard]] void* map_huge_pages(std::size_t bytes);

/// Gives it, or a part of it in whole pages, back at once: it does not stay in an allocator's
/// arena.
void unmap_pages(void* memory, std::size_t bytes) noexcept;

}  // namespace verge::detail
