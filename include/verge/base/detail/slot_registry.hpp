// verge/base/detail/slot_registry.hpp -- the process-wide table of slot chunks: who owns which.
//
// Every chunk of every slot_pool has a number of its own, like a page frame.  A slot's index is
// (chunk number, place in the chunk), so an index names one slot of one pool, and an id of another
// pool is recognised by its number.  A number is used again after its chunk was given back, but
// only with generations above all that the chunk before ever gave out: no id comes twice.
//
// Memory: 32 bytes for each chunk there ever was at one time, in leaves that are never freed, so
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

    /// What the table says of a number.  The pool that holds the number writes owner, slots and
    /// used, under its own lock; `used` may not be read without that lock, and what is read of
    /// `slots` without it is a hint.
    struct record {
        std::atomic<const void*> owner{nullptr};  // nullptr: nobody's
        std::atomic<void*> slots{nullptr};
        std::uint32_t used = 0;  // slots made so far
        // The registry's own, under its lock.
        std::uint32_t generation = 1;
        std::uint32_t next_free = 0;

        /// Says whose chunk it is, and where its slots are.
        void assign(const void* new_owner, void* new_slots, std::uint32_t new_used) noexcept {
            // relaxed: the pool's lock orders it for those who use it as an address.
            slots.store(new_slots, std::memory_order_relaxed);
            used = new_used;
            // release: pairs with the acquire in owned_by(), for a pool that finds
            // its own chunk without a lock around both; foreign owners only compare.
            owner.store(new_owner, std::memory_order_release);
        }
        /// Whose it is; nullptr: nobody's.
        [[nodiscard]] const void* owned_by() const noexcept {
            // acquire: pairs with the release in assign().
            return owner.load(std::memory_order_acquire);
        }
    };

    /// The record of a number; nullptr if there never was one.  For any number.
    [[nodiscard]] static record* find(std::uint32_t number) noexcept {
        if (number >> number_bits != 0) return nullptr;
        // acquire: pairs with the release in take(), which made the leaf.
        leaf* const l = root[number >> leaf_bits].load(std::memory_order_acquire);
        return l == nullptr ? nullptr : &l->records[number & ((1U << leaf_bits) - 1)];
    }

    /// The record of a number that was taken.
    [[nodiscard]] static record& at(std::uint32_t number) noexcept {
        // acquire: as in find().
        return root[number >> leaf_bits]
            .load(std::memory_order_acquire)
            ->records[number & ((1U << leaf_bits) - 1)];
    }

    /// The owner of a chunk number, or nullptr; for any number.
    [[nodiscard]] static const void* owner_of(std::uint32_t number) noexcept {
        const record* const r = find(number);
        return r == nullptr ? nullptr : r->owned_by();
    }

private:
    static constexpr unsigned leaf_bits = 11;
    static constexpr unsigned root_bits = number_bits - leaf_bits;

    struct leaf {
        record records[std::size_t{1} << leaf_bits];
    };

    // Leaves, made by take() in order, never freed.
    static std::atomic<leaf*> root[std::size_t{1} << root_bits];
};

}  // namespace verge::detail
