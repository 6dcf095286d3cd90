// verge/sync/shared_mutex.hpp -- one writer, or many readers.
//
//     verge::shared_mutex mutex;
//
//     const std::shared_lock look(mutex);                // a reader
//     const std::unique_lock change(mutex);              // a writer
//
// It is for what is read by many, for long, and seldom changed.  Where readers hold it for less
// than a microsecond a mutex is faster: all readers write the same word.  Not recursive, not even
// for readers: one that waits in line behind a writer would wait for itself.
//
// Who cannot have it at once gets in line, readers and writers alike, so neither starves: nobody
// who comes later is let in before the first in line.
//
// Guarantees, under the names of the tests that hold them
//   AWriterIsAlone, ReadersShare
//   AWriterInLineHoldsNewReadersBack   so that it gets its turn.
//   AReaderInLineHoldsNewWritersBack
//   ATimedLockIsNeverEarly             and one that gives up lets those behind it go on.
//   AnInterruptDoesNotEndALock
//   MayBeDestroyedByWhoLocksItLast
//
// States of word_ {writer, line, asleep, readers}
//
//   writer   a writer holds it; then readers is 0
//   readers  how many readers hold it
//   line     the first in line waits for it: others may not take it in passing
//   asleep   the first in line waits on word_: who makes it free wakes that one
//
// Invariants
//   W1  The first in line is who holds line_.  All others in line wait for that mutex, in order.
//   W2  line and asleep are written by the first in line only.  So one at most waits on word_.
//   W3  While line is set, readers only falls and writer is only cleared, but by the first in line.
//       So word_ never comes back to a value that the first in line has seen.
//   W4  unlock() and unlock_shared() touch word_ once, and then only its address.
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
            // acquire: pairs with the release in unlock().  relaxed on failure: looked at again.
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

    // Gets in line.  `as` is what it adds to word_: writer, or one_reader.
    bool lock_in_line(time_point deadline, std::uint32_t as);

    // Written by whoever locks and unlocks; line and asleep as in W2.
    std::atomic<std::uint32_t> word_{0};
    mutex line_;
};

}  // namespace verge
