// unit/base/slot_pool_fixture.hpp -- a pool of plain items, and ids taken apart.

#pragma once

#include <verge/base/detail/slot_pool.hpp>

#include <cstdint>

#include <gtest/gtest.h>

namespace verge::detail {

struct item {
    std::uint64_t tag = 0;
    std::uint64_t more[7] = {};
};
using pool = slot_pool<item>;

inline constexpr std::uint32_t last = slot_registry::last_generation;

inline std::uint64_t make_id(std::uint64_t generation, std::uint64_t index) {
    return generation << 32 | index;
}
inline std::uint32_t index_of(std::uint64_t id) {
    return static_cast<std::uint32_t>(id);
}
inline std::uint32_t generation_of(std::uint64_t id) {
    return static_cast<std::uint32_t>(id >> 32);
}

// Takes a slot, frees it, and returns the id that it had.
inline std::uint64_t use_once(pool& p) {
    item* const value = p.take_or_grow();
    const std::uint64_t id = pool::id_of(*value);
    p.free(*value);
    return id;
}

// A pool whose only chunk has slots with `uses` uses left: its number was made old in the registry.
inline void adopt_old_chunk(pool& p, std::uint32_t uses) {
    slot_numbers.give_back(slot_numbers.take().number, last - uses);
    p.adopt(pool::make_chunks());
}

}  // namespace verge::detail
