// verge/base/detail/slot_registry.hpp -- the process-wide table of slot chunks and their owners.
//
// Every chunk of every slot_pool has a unique number, like a page frame.  A slot's index is
// (chunk number, place in the chunk), so an index names one slot of one pool, and an id of another
// pool is recognised by its number.  A number is reused after its chunk was freed, but only with
// generations above all that the previous chunk ever gave out: no id is given out twice.
//
// Memory: 32 bytes for each chunk of the peak number of chunks, in leaves that are never freed, so
// that a lookup needs no lock; and 16 KB for the root, of which only the start is ever touched.
//
// Invariants
//   R1  A leaf is fully constructed before the root points to it, and is never freed: any number
//       may be looked up at any time.
//   R2  A number belongs to one chunk at a time, and its generations only increase.
//   R3  A thread that reads that a pool no longer owns a chunk sees everything that was done before
//       the pool released it.  So the guarantee of `gone` also holds after a trim().
//
// Memory orders
//   The root: take() releases a leaf and find() acquires it (R1).  The owner: assign() releases and
//   owned_by() acquires (R3); a number reaches its next owner through lock_, which is transitive.
//   tests/model/slot_registry_model.cpp explores both.
//
// Thread safety: all functions, from any thread.

#pragma once

#include <verge/base/detail/spin_lock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace verge::detail {

/// The platform of a registry, and its size.  The model tests supply their own.
struct registry_platform {
    template <class T>
    using atomic = std::atomic<T>;
    using lock = spin_lock;

    static constexpr unsigned root_bits = 11;  // leaves
    static constexpr unsigned leaf_bits = 11;  // records in each
};

template <class Platform>
class basic_slot_registry {
    template <class T>
    using atomic = typename Platform::template atomic<T>;

public:
    static constexpr unsigned number_bits = Platform::root_bits + Platform::leaf_bits;
    static constexpr std::uint32_t last_generation = 0xFFFF'FFFF;  // is never given out

    /// A chunk number and the generation that its slots start with.
    struct claim {
        std::uint32_t number;
        std::uint32_t generation;
    };

    /// The entry of a number.  The pool that holds the number writes owner, slots and used, under
    /// its own lock; `used` may not be read without that lock, and `slots` read without it is a
    /// hint.
    struct record {
        atomic<const void*> owner{nullptr};  // nullptr: none
        atomic<void*> slots{nullptr};
        std::uint32_t used = 0;  // slots made so far
        // Under the registry's lock.
        std::uint32_t generation = 1;
        std::uint32_t next_free = none;

        /// Sets the owner of the chunk, and the address of its slots.
        void assign(const void* new_owner, void* new_slots, std::uint32_t new_used) noexcept {
            // relaxed: readers that dereference it hold the pool's lock.
            slots.store(new_slots, std::memory_order_relaxed);
            used = new_used;
            // release: pairs with the acquire in owned_by().
            owner.store(new_owner, std::memory_order_release);
        }
        /// Its owner; nullptr: none.
        [[nodiscard]] const void* owned_by() const noexcept {
            // acquire: pairs with the release in assign() (R3).
            return owner.load(std::memory_order_acquire);
        }
    };

    constexpr basic_slot_registry() noexcept = default;
    ~basic_slot_registry() = default;  // frees no leaf: the process-wide one is never destroyed
    basic_slot_registry(const basic_slot_registry&) = delete;
    basic_slot_registry& operator=(const basic_slot_registry&) = delete;

    /// Takes a free number.  Throws std::bad_alloc if there is no memory, or no number left.
    [[nodiscard]] claim take() {
        std::unique_ptr<leaf> spare;  // made outside the lock, used if the next number needs one
        for (;;) {
            {
                const lock_scope hold(lock_);
                if (free_head_ != none) {
                    const std::uint32_t number = free_head_ - 1;
                    record& r = at(number);
                    free_head_ = r.next_free;
                    return {number, r.generation};
                }
                if (fresh_ >> number_bits != 0) throw std::bad_alloc();
                if (find(fresh_) == nullptr && spare != nullptr) {
                    // release: pairs with the acquire in find() (R1).
                    root_of(fresh_).store(spare.release(), std::memory_order_release);
                }
                if (const record* const r = find(fresh_); r != nullptr) {
                    return {fresh_++, r->generation};
                }
            }
            spare = std::make_unique<leaf>();
        }
    }

    /// Frees a number; its next user starts at `generation`.  A number whose generations are used
    /// up is retired.
    void give_back(std::uint32_t number, std::uint32_t generation) noexcept {
        record& r = at(number);
        r.assign(nullptr, nullptr, 0);
        if (generation == last_generation) return;  // retired
        const lock_scope hold(lock_);
        r.generation = generation;
        r.next_free = free_head_;
        free_head_ = number + 1;
    }

    /// The record of any number; nullptr if it has none.
    [[nodiscard]] record* find(std::uint32_t number) noexcept {
        if (number >> number_bits != 0) return nullptr;
        // acquire: pairs with the release in take(), which made the leaf.
        leaf* const l = root_of(number).load(std::memory_order_acquire);
        return l == nullptr ? nullptr : &l->record_of(number);
    }

    /// The record of a number that was taken.
    [[nodiscard]] record& at(std::uint32_t number) noexcept {
        // relaxed: a caller has the number from take(), which saw the leaf under the lock.
        return root_of(number).load(std::memory_order_relaxed)->record_of(number);
    }

    /// The owner of any chunk number, or nullptr.
    [[nodiscard]] const void* owner_of(std::uint32_t number) noexcept {
        const record* const r = find(number);
        return r == nullptr ? nullptr : r->owned_by();
    }

    /// Hold the lock across a fork: the child has none of the threads that might hold it otherwise.
    void before_fork() noexcept VERGE_ACQUIRE(lock_) { lock_.lock(); }
    void after_fork() noexcept VERGE_RELEASE(lock_) { lock_.unlock(); }

private:
    friend struct slot_registry_access;  // for the model

    static constexpr std::uint32_t none = 0;  // list links hold number + 1

    struct leaf {
        record records[std::size_t{1} << Platform::leaf_bits];
        record& record_of(std::uint32_t number) noexcept {
            return records[number & ((1U << Platform::leaf_bits) - 1)];
        }
    };

    [[nodiscard]] atomic<leaf*>& root_of(std::uint32_t number) noexcept {
        return root_[number >> Platform::leaf_bits];
    }

    // Zero-initialized, so that it is in .bss.
    typename Platform::lock lock_;
    // Numbers below `fresh_` have been used; freed ones are linked from `free_head_`.
    std::uint32_t fresh_ VERGE_GUARDED_BY(lock_) = 0;
    std::uint32_t free_head_ VERGE_GUARDED_BY(lock_) = none;
    // Leaves, made by take() in order, never freed.
    atomic<leaf*> root_[std::size_t{1} << Platform::root_bits] = {};
};

using slot_registry = basic_slot_registry<registry_platform>;
extern template class basic_slot_registry<registry_platform>;

/// The process-wide registry.
extern constinit slot_registry slot_numbers;

}  // namespace verge::detail
