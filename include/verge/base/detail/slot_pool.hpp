// verge/base/detail/slot_pool.hpp -- type-stable slots with 64-bit ids that are never reused.
//
// A slot holds one T, constructed when the slot is first used and kept, also while the slot is
// free, until its chunk is freed: the user must release what a T owns before free().  Slots are
// in chunks of 1024, mapped from the system and returned to it by trim().
//
// An id is (generation, chunk number, place): 32 + 22 + 10 bits.  Freeing a slot increments its
// generation, so the id is stale from then on; a slot whose generation would wrap around is retired
// instead.  Chunk numbers are process-wide (slot_registry), so an id of another pool is recognised
// as well.  find() accepts any 64-bit value and costs three loads and an access to the slot.  0 is
// never an id.
//
// take(), free(), adopt() and trim() never allocate and make no system call, so they can run under
// a spin lock.  When take() finds no slot, make a chunk outside the lock and adopt() it inside;
// what trim() returns goes back to the system when it is destroyed, outside the lock.
//
// Thread safety: none, the owner locks; but a chunk_list needs no lock while it is in no pool, and
// owner_of() may be called from any thread.

#pragma once

#include <verge/base/detail/annotate.hpp>
#include <verge/base/detail/assert.hpp>
#include <verge/base/detail/pages.hpp>
#include <verge/base/detail/slot_registry.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace verge::detail {

template <class T>
class slot_pool {
    struct slot;
    struct chunk;

public:
    static constexpr unsigned chunk_bits = 10;
    static constexpr std::size_t chunk_slots = std::size_t{1} << chunk_bits;
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    /// Chunks that are in no pool: not adopted yet, or trimmed.  Owns them.
    class chunk_list {
    public:
        chunk_list() noexcept = default;
        chunk_list(chunk_list&& other) noexcept
            : head_(std::exchange(other.head_, nullptr)), size_(std::exchange(other.size_, 0)) {}
        chunk_list& operator=(chunk_list&& other) noexcept {
            std::swap(head_, other.head_);
            std::swap(size_, other.size_);
            return *this;
        }
        ~chunk_list() {
            while (head_ != nullptr)
                delete pop();
        }
        chunk_list(const chunk_list&) = delete;
        chunk_list& operator=(const chunk_list&) = delete;

        [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
        [[nodiscard]] std::size_t size() const noexcept { return size_; }

    private:
        friend class slot_pool;
        void push(chunk* c) noexcept {
            c->next = std::exchange(head_, c);
            ++size_;
        }
        [[nodiscard]] chunk* pop() noexcept {
            --size_;
            return std::exchange(head_, head_->next);
        }

        chunk* head_ = nullptr;
        std::size_t size_ = 0;
    };

    /// At most `limit` slots are in use at one time.  owner_of() returns `owner` for its ids: an
    /// address unique to this pool, by default that of the pool.
    explicit slot_pool(std::size_t limit = unlimited, const void* owner = nullptr) noexcept
        : owner_(owner == nullptr ? this : owner), limit_(limit) {}

    ~slot_pool() = default;
    slot_pool(const slot_pool&) = delete;
    slot_pool& operator=(const slot_pool&) = delete;

    /// A free slot, with a new id; nullptr if there is none, see full().
    [[nodiscard]] T* take() noexcept {
        if (size_ >= limit_) return nullptr;
        slot* s = free_;
        if (s != nullptr) [[likely]] {
            free_ = s->next;
            __builtin_prefetch(free_, 1);  // for the next take(): another thread may have freed it
            unpoison_kept(&s->value, sizeof(T));
        } else {
            s = fresh_slot();
            if (s == nullptr) return nullptr;
        }
        s->next = s;
        ++size_;
        return &s->value;
    }

    /// take() returns nullptr from now on.
    void close() noexcept { limit_ = 0; }

    /// Whether take() fails because the limit is reached, and not for lack of a chunk.
    [[nodiscard]] bool full() const noexcept { return size_ >= limit_; }

    /// Ends the slot's present use: its id is stale from now on.
    void free(T& value) noexcept {
        slot& s = slot_of(value);
        VERGE_ASSERT(s.next == &s, "a slot is freed twice");
        --size_;
        ++s.generation;
        if (s.generation == slot_registry::last_generation) [[unlikely]] {
            s.next = nullptr;
            ++retired_;
            return;
        }
        s.next = free_;
        free_ = &s;
        poison(&s.value, sizeof(T));
    }

    /// The slot that `id` names, or nullptr if the id is stale, was never given out, or is not of
    /// this pool.
    [[nodiscard]] T* find(std::uint64_t id) const noexcept {
        const slot_registry::record* const r = record_of(id);
        return r == nullptr ? nullptr : find(id, *r);
    }

    /// find(), for a caller that has already looked up the record of the id's chunk.
    [[nodiscard]] T* find(std::uint64_t id, const slot_registry::record& r) const noexcept {
        if (r.owned_by() != owner_) [[unlikely]]
            return nullptr;
        slot& s = slots_of(r)[id & (chunk_slots - 1)];
        // A slot that was never used is all zeros, and so is not its own next.
        if (s.generation != id >> 32 || s.next != &s) [[unlikely]]
            return nullptr;
        return &s.value;
    }

    /// Prefetches the slot for a later find(), before the lock is taken.
    static void prefetch(std::uint64_t id, const slot_registry::record& r) noexcept {
        __builtin_prefetch(slots_of(r) + (id & (chunk_slots - 1)), 1);
    }

    /// The registry's record of the chunk of this id; nullptr if there never was such a chunk.
    [[nodiscard]] static const slot_registry::record* record_of(std::uint64_t id) noexcept {
        return slot_numbers.find(static_cast<std::uint32_t>(id) >> chunk_bits);
    }

    /// The id of a slot in use.
    [[nodiscard]] static std::uint64_t id_of(const T& value) noexcept {
        const slot& s = slot_of(value);
        return std::uint64_t{s.generation} << 32 | s.index;
    }

    /// The owner of the pool whose slot `id` may name, as an address to compare; nullptr if there
    /// is none.
    [[nodiscard]] static const void* owner_of(std::uint64_t id) noexcept {
        return slot_numbers.owner_of(static_cast<std::uint32_t>(id) >> chunk_bits);
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }        ///< Slots in use.
    [[nodiscard]] std::size_t retired() const noexcept { return retired_; }  ///< Slots used up.
    [[nodiscard]] std::size_t capacity() const noexcept {                    ///< Slots usable.
        return chunks_.size() * chunk_slots - retired_;
    }

    /// Chunks for `slots` slots.  Allocates: throws std::bad_alloc.
    [[nodiscard]] static chunk_list make_chunks(std::size_t slots = 1) {
        if (slots > chunk_slots << slot_registry::number_bits) throw std::bad_alloc();
        chunk_list made;
        while (made.size() * chunk_slots + group_chunks * chunk_slots <= slots)
            make_group(made);
        while (made.size() * chunk_slots < slots)
            made.push(new chunk(nullptr));
        return made;
    }

    /// For how many slots to make chunks next: a large pool grows in larger steps, which are mapped
    /// as huge pages.
    [[nodiscard]] std::size_t growth() const noexcept {
        return chunks_.size() < group_chunks ? 1 : group_chunks * chunk_slots;
    }

    /// Adds the slots of these chunks to the pool.  O(chunks), if they come from make_chunks().
    void adopt(chunk_list added) noexcept {
        while (!added.empty()) {
            chunk* const c = added.pop();
            c->record->assign(owner_, c->slots, c->record->used);
            retired_ += c->retired();
            insert(c);
        }
    }

    /// take(), adding chunks as needed: for owners without a lock.  nullptr only if full().
    [[nodiscard]] T* take_or_grow() {
        T* value = take();
        if (value != nullptr || full()) return value;
        adopt(make_chunks(growth()));
        return take();
    }

    /// A place in the pool, for next_in_use().  Valid while no chunk is trimmed; chunks that are
    /// adopted after the first call are not seen.
    class cursor {
        friend class slot_pool;
        chunk* at_ = nullptr;
        std::size_t place_ = 0;
        bool begun_ = false;
    };

    /// The next slot in use, in no promised order, or nullptr at the end.  Slots may be taken and
    /// freed between the calls.
    [[nodiscard]] T* next_in_use(cursor& c) const noexcept {
        if (!c.begun_) c.at_ = chunks_.head_;
        c.begun_ = true;
        for (; c.at_ != nullptr; c.at_ = c.at_->next, c.place_ = 0) {
            while (c.place_ < c.at_->used()) {
                slot& s = c.at_->slots[c.place_++];
                if (s.next == &s) return &s.value;
            }
        }
        return nullptr;
    }

    /// Removes and returns the chunks that have no slot in use.  O(capacity).
    [[nodiscard]] chunk_list trim() noexcept {
        chunk_list all(std::move(chunks_));
        chunk_list idle;
        free_ = nullptr;
        fresh_ = nullptr;
        while (!all.empty()) {
            chunk* const c = all.pop();
            if (c->idle()) {
                retired_ -= c->retired();
                c->record->assign(nullptr, c->slots, c->record->used);
                idle.push(c);
            } else {
                insert(c);
            }
        }
        return idle;
    }

private:
    // Aligned to cache lines, with the fields that find() reads before the value: a cancel needs
    // only the first line.
    struct alignas(64) slot {
        slot* next = nullptr;          // in use: itself; free: the next free one; retired: nullptr
        std::uint32_t generation = 0;  // of the present use, or of the next one
        std::uint32_t index = 0;       // chunk number and place; never changes
        T value;
    };

    // Returns its memory and its number when it is destroyed.
    struct chunk {
        // `memory`: for its slots, owned by the chunk from now on; nullptr: it maps its own.
        explicit chunk(slot* memory) : slots(memory) {
            const slot_registry::claim claim = slot_numbers.take();
            number = claim.number;
            record = &slot_numbers.at(number);
            generation = claim.generation;
            if (slots != nullptr) return;
            try {
                slots = static_cast<slot*>(map_pages(chunk_bytes()));
            } catch (...) {
                slot_numbers.give_back(number, generation);
                throw;
            }
        }
        ~chunk() {
            std::uint32_t unused = generation;
            for (std::size_t i = 0; i < used(); ++i) {
                slot& s = slots[i];
                // The generation of a slot in use has been given out, that of a free one has not.
                const std::uint32_t next_one = s.generation + (s.next == &s ? 1 : 0);
                if (next_one > unused) unused = next_one;
                unpoison_kept(&s.value, sizeof(T));
                s.~slot();
            }
            unmap_pages(slots, chunk_bytes());
            slot_numbers.give_back(number, unused);
        }
        chunk(const chunk&) = delete;
        chunk& operator=(const chunk&) = delete;

        // Slots made so far; the others are untouched memory.
        [[nodiscard]] std::uint32_t used() const noexcept { return record->used; }

        [[nodiscard]] bool idle() const noexcept {
            for (std::size_t i = 0; i < used(); ++i) {
                if (slots[i].next == &slots[i]) return false;
            }
            return true;
        }
        [[nodiscard]] std::size_t retired() const noexcept {
            std::size_t count = 0;
            for (std::size_t i = 0; i < used(); ++i) {
                if (slots[i].generation == slot_registry::last_generation) ++count;
            }
            return count;
        }

        slot* slots = nullptr;
        slot_registry::record* record = nullptr;
        chunk* next = nullptr;        // in its chunk_list
        chunk* next_fresh = nullptr;  // while it has slots never used: in the pool's fresh_
        std::uint32_t number = 0;
        std::uint32_t generation = 0;  // that its slots start with
    };

    static slot* slots_of(const slot_registry::record& r) noexcept {
        // relaxed: ordered by the pool's lock, or used as a prefetch hint only.
        return static_cast<slot*>(r.slots.load(std::memory_order_relaxed));
    }

    static slot& slot_of(const T& value) noexcept {
        constexpr std::size_t before =
            (2 * sizeof(void*) + alignof(T) - 1) / alignof(T) * alignof(T);
        static_assert(sizeof(slot) >= before + sizeof(T) && alignof(T) <= 64);
        auto* const bytes = reinterpret_cast<std::byte*>(const_cast<T*>(&value));
        return *reinterpret_cast<slot*>(bytes - before);
    }

    // A timer's slot has 128 bytes: 16 chunks fill a huge page of 2 MiB.
    static constexpr std::size_t group_chunks = 16;
    static constexpr std::size_t chunk_bytes() noexcept { return sizeof(slot) * chunk_slots; }

    // Adds a group of chunks in one mapping; each chunk unmaps its own part.
    static void make_group(chunk_list& to) {
        auto* const memory = static_cast<std::byte*>(map_huge_pages(group_chunks * chunk_bytes()));
        std::size_t used = 0;
        try {
            for (; used < group_chunks; ++used)
                to.push(new chunk(reinterpret_cast<slot*>(memory + used * chunk_bytes())));
        } catch (...) {
            unmap_pages(memory + used * chunk_bytes(), (group_chunks - used) * chunk_bytes());
            throw;
        }
    }

    // Makes the slots of a chunk available: the free ones and those never used.
    void insert(chunk* c) noexcept {
        for (std::size_t i = c->used(); i-- > 0;) {
            slot& s = c->slots[i];
            if (s.next == &s || s.generation == slot_registry::last_generation) continue;
            s.next = free_;
            free_ = &s;
        }
        if (c->used() < chunk_slots) c->next_fresh = std::exchange(fresh_, c);
        chunks_.push(c);
    }

    // Constructs a slot that has never been used.
    slot* fresh_slot() noexcept {
        chunk* const c = fresh_;
        if (c == nullptr) return nullptr;
        const std::uint32_t place = c->used();
        slot* const s = ::new (static_cast<void*>(&c->slots[place])) slot;
        s->generation = c->generation;
        s->index = c->number << chunk_bits | place;
        c->record->used = place + 1;
        if (place + 1 == chunk_slots) fresh_ = c->next_fresh;
        return s;
    }

    chunk_list chunks_;
    chunk* fresh_ = nullptr;  // the chunks with slots never used, linked through next_fresh
    std::size_t retired_ = 0;
    // The fields that every use accesses come last, next to what the owner puts behind the pool.
    const void* const owner_;
    std::size_t limit_;
    slot* free_ = nullptr;  // linked through next; LIFO: the last freed slot is in the cache
    std::size_t size_ = 0;
};

}  // namespace verge::detail
