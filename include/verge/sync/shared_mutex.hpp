// verge/sync/shared_mutex.hpp -- one writer, or many readers.
//
//     verge::shared_mutex mutex;
//
//     const std::shared_lock look(mutex);                // a reader
//     const std::unique_lock change(mutex);              // a writer
//
// It is for data that is read by many, for long, and seldom changed.  Where readers hold it for
// less than a microsecond a mutex is faster: all readers write the same word.  Not recursive, not
// even for readers: a reader that queues behind a writer would wait for itself.
//
// A lock that does not succeed at once queues up, readers and writers alike, so neither starves: no
// later lock succeeds before the first one in the queue.
//
// Guarantees, under the names of the tests that hold them
//   AWriterIsAlone, ReadersShare
//   AWriterInLineHoldsNewReadersBack   so that it gets its turn.
//   AReaderInLineHoldsNewWritersBack
//   ATimedLockIsNeverEarly             and one that times out unblocks those behind it.
//   AnInterruptDoesNotEndALock
//   MayBeDestroyedByWhoLocksItLast
//
// States of word_ {writer, line, asleep, readers}
//
//   writer   a writer holds it; then readers is 0
//   readers  how many readers hold it
//   line     the first in the queue waits for it: others must not take it on the fast path
//   asleep   the first in the queue waits on word_: the unlock that makes it free wakes it
//
// Invariants
//   SM1  The first in the queue is the holder of line_.  All others wait for that mutex, in order.
//   SM2  Only the first in the queue writes line and asleep.  So at most one waits on word_.
//   SM3  While line is set, readers only falls and writer is only cleared, except by the first in
//       the queue.  So word_ never returns to a value that the first in the queue has read.
//   SM4  unlock() and unlock_shared() access word_ once, and then use only its address.
//
// Memory orders
//   A lock acquires and an unlock releases.  Every write of word_ is a read-modify-write, so that a
//   writer acquires what all readers before it released.
//
// Thread safety: all of it.  Size: 8 bytes; nothing allocates.
// Exceptions: the timed forms as wait(); then it is not locked.  Nothing else throws.

#pragma once

#include <verge/sync/mutex.hpp>

#include <atomic>
#include <cstdint>

namespace verge {

class shared_mutex {
public:
    constexpr shared_mutex() noexcept = default;
    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;
    ~shared_mutex() = default;

    void lock() noexcept {
        if (!try_lock()) [[unlikely]]
            static_cast<void>(lock_in_line(never, writer));
    }
    [[nodiscard]] bool try_lock() noexcept {
        std::uint32_t seen = 0;
        // acquire: pairs with the releases of both unlocks.  relaxed on failure: nothing is read.
        return word_.compare_exchange_strong(seen, writer, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }
    [[nodiscard]] bool try_lock_until(time_point deadline) {
        return try_lock() || lock_in_line(deadline, writer);
    }
    template <detail::sync::delay Delay>
    [[nodiscard]] bool try_lock_for(Delay delay) {
        return try_lock() || lock_in_line(detail::sync::deadline_in(delay), writer);
    }
    /// Precondition: the caller holds it as the writer.
    void unlock() noexcept {
        // release: pairs with the acquire of the next lock.
        const std::uint32_t was = word_.fetch_and(~writer, std::memory_order_release);
        VERGE_ASSERT((was & writer) != 0, "verge: unlock of a shared_mutex without its writer");
        if ((was & asleep) != 0) [[unlikely]]
            notify_one(word_);
    }

    void lock_shared() noexcept {
        if (!try_lock_shared()) [[unlikely]]
            static_cast<void>(lock_in_line(never, one_reader));
    }
    [[nodiscard]] bool try_lock_shared() noexcept {
        // relaxed: the CAS below decides.
        std::uint32_t seen = word_.load(std::memory_order_relaxed);
        while ((seen & (writer | line)) == 0) {
            // acquire: pairs with the release in unlock().  relaxed on failure: read again.
            if (word_.compare_exchange_weak(seen, seen + one_reader, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
        return false;
    }
    [[nodiscard]] bool try_lock_shared_until(time_point deadline) {
        return try_lock_shared() || lock_in_line(deadline, one_reader);
    }
    template <detail::sync::delay Delay>
    [[nodiscard]] bool try_lock_shared_for(Delay delay) {
        return try_lock_shared() || lock_in_line(detail::sync::deadline_in(delay), one_reader);
    }
    /// Precondition: the caller holds it as a reader.
    void unlock_shared() noexcept {
        // release: pairs with the acquire of the next writer.
        const std::uint32_t was = word_.fetch_sub(one_reader, std::memory_order_release);
        VERGE_ASSERT((was & readers) != 0, "verge: unlock_shared of a shared_mutex without reader");
        if ((was & (asleep | readers)) == (asleep | one_reader)) [[unlikely]]
            notify_one(word_);
    }

private:
    static constexpr std::uint32_t writer = 1U << 31;
    static constexpr std::uint32_t line = 1U << 30;
    static constexpr std::uint32_t asleep = 1U << 29;
    static constexpr std::uint32_t readers = asleep - 1;
    static constexpr std::uint32_t one_reader = 1;

    // Queues up.  `as` is what it adds to word_: writer, or one_reader.
    bool lock_in_line(time_point deadline, std::uint32_t as);

    // Written by threads that lock and unlock; line and asleep as in SM2.
    std::atomic<std::uint32_t> word_{0};
    mutex line_;
};

}  // namespace verge
