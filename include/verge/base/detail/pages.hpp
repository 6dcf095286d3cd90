// verge/base/detail/pages.hpp -- memory straight from the system, and back to it.

#pragma once

#include <cstddef>

namespace verge::detail {

/// Zeroed memory of at least `bytes`, aligned to a page; resident only where it is touched.
/// Throws std::bad_alloc if the system refuses.
[[nodiscard]] void* map_pages(std::size_t bytes);

/// Gives it back at once: it does not stay in an allocator's arena.
void unmap_pages(void* memory, std::size_t bytes) noexcept;

}  // namespace verge::detail
