// verge/sync/recursive_mutex.hpp -- a mutex that its holder may lock again.
//
//     verge::recursive_mutex mutex;
//
//     const std::lock_guard outer(mutex);
//     const std::lock_guard inner(mutex);                // the same fiber, or thread
//
// The owner is the fiber, wherever it runs, or the plain thread.  It is for code that calls itself
// through others.  Prefer a mutex: a class that defines which of its functions hold the lock needs
// no recursion.
//
// Guarantees, under the names of the tests that hold them
//   ItsHolderMayLockItAgain            and has to unlock it once per lock.
//   LetsOneInAtATime, ATimedLockIsNeverEarly, AnInterruptDoesNotEndALock: as mutex.
//
// Invariants
//   RM1  owner_ is the waiter that holds mutex_, or null: set after locking, cleared before
//       unlocking, by the holder only.
//   RM2  depth_ is the number of locks beyond the first; read and written by the holder only.
//
// Memory orders
//   owner_ is relaxed: it equals the caller only if the caller itself has stored it, which needs no
//   order between threads; any other value means "another holder, or none".
//
// Thread safety: all of it.  Size: 16 bytes; nothing allocates.
// Exceptions: as mutex.

#pragma once

#include <verge/sync/mutex.hpp>

#include <atomic>
#include <cstdint>

namespace verge {

namespace detail::sync {
class waiter;
}

class recursive_mutex {
public:
    constexpr recursive_mutex() noexcept = default;
    recursive_mutex(const recursive_mutex&) = delete;
    recursive_mutex& operator=(const recursive_mutex&) = delete;
    ~recursive_mutex() = default;

    void lock() noexcept;
    [[nodiscard]] bool try_lock() noexcept;
    [[nodiscard]] bool try_lock_until(time_point deadline);
    template <detail::sync::delay Delay>
    [[nodiscard]] bool try_lock_for(Delay delay) {
        return try_lock() || try_lock_until(detail::sync::deadline_in(delay));
    }

    /// Precondition: the caller holds it.
    void unlock() noexcept;

private:
    // If the caller holds it already, increments the depth and returns true.
    bool again(detail::sync::waiter& self) noexcept;
    void own(detail::sync::waiter& self) noexcept;

    mutex mutex_;
    std::uint32_t depth_ = 0;
    std::atomic<detail::sync::waiter*> owner_{nullptr};
};

}  // namespace verge
