// verge/base/detail/spin_lock.hpp -- a lock for critical sections of a few dozen nanoseconds.
//
// States of word_:   free (0)  <-- unlock() --  held (1)
//                    free      -- lock() ---->  held
//
// Unlocking is a plain store: on x86 that is 20 cycles cheaper than the exchange that a futex mutex
// needs to learn whether a waiter sleeps.  The price is that a waiter cannot be woken.  So a thread
// that does not get the lock spins for about 5 us, longer than any critical section of ours, then
// yields, then sleeps for increasing intervals of up to 1 ms: the kernel runs the holder meanwhile,
// even if the holder has a lower real-time priority.  A waiter polls, so no wake-up can be lost.
//
// Not for anything that may be held across a system call.  Not fair.
//
// Invariants
//   S1  Only the thread whose exchange found `free` unlocks.
//
// Memory orders
//   lock() exchanges with acquire and unlock() stores with release: what one holder wrote is
//   visible to the next.  tests/model/spin_lock_model.cpp explores both.

#pragma once

#include <verge/base/detail/thread_annotations.hpp>

#include <atomic>
#include <cstdint>

namespace verge::detail {

/// The platform of a spin lock.  The model tests supply their own.
struct spin_platform {
    template <class T>
    using atomic = std::atomic<T>;

    static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("isb");
#endif
    }

    /// Lets another thread run.  `round` counts the calls in one lock(): the first few yield, the
    /// later ones sleep for up to a millisecond.
    static void give_way(unsigned round) noexcept;
};

template <class Platform>
class VERGE_CAPABILITY("mutex") basic_spin_lock {
public:
    void lock() noexcept VERGE_ACQUIRE() {
        // acquire: pairs with the release in unlock().
        if (word_.exchange(held, std::memory_order_acquire) == free) [[likely]]
            return;
        lock_slowly();
    }

    [[nodiscard]] bool try_lock() noexcept VERGE_TRY_ACQUIRE(true) {
        // acquire: pairs with the release in unlock().
        return word_.exchange(held, std::memory_order_acquire) == free;
    }

    void unlock() noexcept VERGE_RELEASE() {
        // release: pairs with the acquire exchanges in lock(), lock_slowly() and try_lock().
        word_.store(free, std::memory_order_release);
    }

private:
    static constexpr std::uint32_t free = 0;
    static constexpr std::uint32_t held = 1;
    // A waiter that polls at once takes the cache lines away from a holder that is about to lock
    // again: two threads in one shard are faster if each does several operations in a row.
    static constexpr unsigned least_pauses = 16;
    static constexpr unsigned most_pauses = 64;

    [[gnu::noinline]] void lock_slowly() noexcept {
        for (unsigned round = 0;; ++round) {
            for (unsigned pauses = least_pauses; pauses <= most_pauses; pauses *= 2) {
                for (unsigned i = 0; i < pauses; ++i)
                    Platform::pause();
                // relaxed: test before test-and-set, which keeps the cache line shared.
                if (word_.load(std::memory_order_relaxed) == free &&
                    // acquire: pairs with the release in unlock().
                    word_.exchange(held, std::memory_order_acquire) == free) {
                    return;
                }
            }
            Platform::give_way(round);
        }
    }

    typename Platform::template atomic<std::uint32_t> word_{free};
};

using spin_lock = basic_spin_lock<spin_platform>;

/// Takes a lock as the thread of this number, which biased locks need to know.
template <class Lock>
void lock_as(Lock& lock, unsigned self) noexcept VERGE_ACQUIRE(lock) {
    if constexpr (requires { lock.lock_as(self); }) {
        lock.lock_as(self);
    } else {
        lock.lock();
    }
}

/// Holds a lock for a scope.  As std::lock_guard, without <mutex>, and known to clang's analysis.
template <class Lock>
class VERGE_SCOPED_CAPABILITY lock_scope {
public:
    explicit lock_scope(Lock& lock) noexcept VERGE_ACQUIRE(lock) : lock_(lock) { lock.lock(); }
    lock_scope(Lock& lock, unsigned self) noexcept VERGE_ACQUIRE(lock) : lock_(lock) {
        lock_as(lock, self);
    }
    ~lock_scope() VERGE_RELEASE() { lock_.unlock(); }
    lock_scope(const lock_scope&) = delete;
    lock_scope& operator=(const lock_scope&) = delete;

private:
    Lock& lock_;
};

}  // namespace verge::detail
