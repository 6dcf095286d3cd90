// verge/base/detail/slot_registry.hpp -- the process-wide table of slot chunks: who owns which.
//
// Every chunk of every slot_pool has a number of its own, like a page frame.  A slot's index is
// (chunk number, place in the chunk), so an index names one slot of one pool, and an id of another
// pool is recognised by its number.  A number is used again after its chunk was given back, but
// only with generations above all that the chunk before ever gave out: no id comes twice.
//
// Memory: 24 bytes for each chunk there ever was at one time, in leaves that are never freed, so
// that a lookup needs no lock; and 16 KB, untouched but for its start, for the root.
//
// Thread safety: all functions, from any thread.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verge::detail {

class slot_registry {
public:
    static constexpr unsigned number_bits = 22;
    static constexpr std::uint32_t last_generation = 0xFFFF'FFFF;  // is never given out

    /// A chunk number and the generation that its slots start with.
    struct claim {
        std::uint32_t number;
        std::uint32_t generation;
    };

    /// Takes a free number.  Throws std::bad_alloc if there is no memory, or no number left.
    [[nodiscard]] static claim take();

    /// Gives a number back; its next user starts at `generation`.  A number whose generations are
    /// used up is retired.
    static void give_back(std::uint32_t number, std::uint32_t generation) noexcept;

    /// Says whose chunk it is, and where.  `owner` nullptr: nobody's.
    static void assign(std::uint32_t number, const void* owner, void* chunk) noexcept {
        entry& e = *find(number);
        e.chunk = chunk;
        // release: pairs with the acquire in owner_of(), for a pool that finds its own chunk
        // without a lock around both; foreign owners only compare.
        e.owner.store(owner, std::memory_order_release);
    }

    /// The owner of a chunk number, or nullptr; for any number.
    [[nodiscard]] static const void* owner_of(std::uint32_t number) noexcept {
        const entry* const e = find(number);
        // acquire: pairs with the release in assign().
        return e == nullptr ? nullptr : e->owner.load(std::memory_order_acquire);
    }

    /// Where the chunk is, if it is `owner`'s; else nullptr.  For any number.
    [[nodiscard]] static void* chunk_of(std::uint32_t number, const void* owner) noexcept {
        const entry* const e = find(number);
        // acquire: pairs with the release in assign().
        if (e == nullptr || e->owner.load(std::memory_order_acquire) != owner) return nullptr;
        return e->chunk;
    }

private:
    static constexpr unsigned leaf_bits = 11;
    static constexpr unsigned root_bits = number_bits - leaf_bits;

    // Written: owner and chunk by the pool that holds the number; generation and next_free by the
    // registry, under its lock.
    struct entry {
        std::atomic<const void*> owner{nullptr};
        void* chunk = nullptr;
        std::uint32_t generation = 1;
        std::uint32_t next_free = 0;
    };
    struct leaf {
        entry entries[std::size_t{1} << leaf_bits];
    };

    [[nodiscard]] static entry* find(std::uint32_t number) noexcept {
        if (number >> number_bits != 0) return nullptr;
        // acquire: pairs with the release in take(), which made the leaf.
        leaf* const l = root[number >> leaf_bits].load(std::memory_order_acquire);
        return l == nullptr ? nullptr : &l->entries[number & ((1U << leaf_bits) - 1)];
    }

    // Leaves, made by take() in order, never freed.
    static std::atomic<leaf*> root[std::size_t{1} << root_bits];
};

}  // namespace verge::detail
