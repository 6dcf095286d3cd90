// verge/base/detail/biased_lock.hpp -- a spin lock with a cheap path for its most frequent user.
//
// An uncontended spin lock costs an atomic exchange, about 8 ns.  But a shard of timers is used by
// one thread for millions of operations in a row, and rarely by another: the timer thread, a reader
// of statistics.  So the lock becomes biased to a thread that took it 2^threshold times in a row.
// That thread takes it by a store and a load, without an atomic read-modify-write or a fence.  Any
// other thread revokes the bias first, and pays for both sides: membarrier makes the kernel execute
// a fence on every running thread of the process (0.2 to 2 us).
//
// Where the kernel has no membarrier, the lock is never biased: it is the spin lock inside it.  So
// it is after disable_bias(), and before the process has called prepare().  A user that guarantees
// that no two threads use the lock concurrently can disable() it: then each caller gets the bias at
// once.
//
// States
//   bias_     0: not biased, the spin lock decides.  Else: biased to the thread of that number.
//   inside_   1 while that thread holds the lock by the bias, or tries to.
//   lock_     held by a thread that took the lock without the bias.
//   owner_    the thread that may write inside_, also after its bias was revoked: it may have read
//             bias_ before that, and continue any time later.  0: none.
//
// Invariants
//   B1  bias_ is written only by the holder of lock_, unless the lock is disabled.  Only the thread
//       of a number sets bias_ to that number.
//   B2  A thread that holds lock_ and has read bias_ == 0, or has set it to 0 and then read
//       inside_ == 0, holds the lock alone: the owner's next read of bias_ returns 0.
//   B3  A thread that has set inside_ and then reads its own number from bias_ holds the lock
//       alone: a thread that revokes the bias waits for inside_ == 0.
//   B4  At most one thread writes inside_.  The lock becomes biased to another thread only after
//       the last owner has taken lock_ since, and so is done with inside_, or has ended.
//
// Memory orders
//   The owner stores inside_, then loads bias_; a revoking thread stores bias_, then loads inside_:
//   one of them must see the other.  That takes a fence on both sides.  heavy_fence() serves both:
//   every thread executes a fence at some point during the call, so light_fence() of the owner only
//   restrains the compiler.  The model uses two fences, which is what the pair guarantees.
//   inside_ is cleared with release, and waited for with acquire: what the owner wrote is visible
//   to the revoking thread.  The other direction goes through lock_: a bias is granted only there.

#pragma once

#include <verge/base/detail/assert.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/base/detail/thread_annotations.hpp>
#include <verge/base/detail/thread_number.hpp>

#include <atomic>
#include <cstdint>

namespace verge::detail {

/// The platform of a biased lock.  The model tests supply their own.
struct bias_platform : spin_platform {
    /// The number of the calling thread; not 0.  Numbers >= shared_number get no bias.
    static std::uint32_t self() noexcept { return thread_number(); }

    /// A fence of the calling thread, effective against threads that call heavy_fence().
    static void light_fence() noexcept {
        __asm__ __volatile__("" ::: "memory");  // for the compiler; heavy_fence() does the rest
    }

    /// A fence on every thread of the process.
    static void heavy_fence() noexcept;

    /// Registers the process for heavy_fence(), unless that was done or refused before.  Not under
    /// a lock: with several threads it takes the kernel up to 15 ms.
    static void prepare() noexcept;

    /// Whether the process is registered, and the kernel has not refused a fence since.
    [[nodiscard]] static bool has_heavy_fence() noexcept;

    /// The lock becomes biased to a thread that took it 2^threshold times in a row: by then the
    /// exchanges have cost about as much as a revocation.
    static constexpr std::uint8_t threshold = 7;

    /// Time in microseconds, and how long a bias must last to pay off: the fences then take at most
    /// 1 % of it.
    static std::uint32_t ticks() noexcept;
    static constexpr std::uint32_t worthwhile = 100;

    /// The kernel's thread id (gettid) of the caller, and whether the thread of an id has ended.
    static std::int32_t kernel_number() noexcept;
    [[nodiscard]] static bool has_ended(std::int32_t kernel_number) noexcept;
};

template <class Platform>
class VERGE_CAPABILITY("mutex") basic_biased_lock {
public:
    using platform = Platform;

    void lock() noexcept VERGE_ACQUIRE() { lock_as(Platform::self()); }

    /// lock(), for a caller that knows its thread number.
    void lock_as(std::uint32_t self) noexcept VERGE_ACQUIRE() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        // relaxed: a hint; checked again below.
        if (bias_.load(std::memory_order_relaxed) == self) [[likely]] {
            VERGE_ASSERT(inside_.load(std::memory_order_relaxed) == 0,  // relaxed: our own store
                         "a lock is taken twice by one thread");
            // relaxed, twice: a fence stands between them; pairs with the one in revoke().
            inside_.store(1, std::memory_order_relaxed);
            Platform::light_fence();
            if (bias_.load(std::memory_order_relaxed) == self) [[likely]] {
                by_bias_ = true;
                return;
            }
            // release: a thread that reads this 0 must see what this thread wrote under the lock.
            // not mutated: relacy keeps the release sequences of C++ before 20, in which a
            // thread's later stores continue its release.
            inside_.store(0, std::memory_order_release);
        }
        lock_without_bias(self);
    }

    /// From now on no two threads use the lock concurrently: the user orders their accesses.
    /// Precondition: it has not been taken yet.
    void disable() noexcept { disabled_ = true; }

    /// From now on it is a spin lock.  Precondition: it has not been taken yet.
    void disable_bias() noexcept { threshold_ = no_bias; }

    /// Whether it is biased to the thread of this number at present.
    [[nodiscard]] bool is_biased_to(std::uint32_t self) const noexcept {
        // relaxed: a hint.
        return bias_.load(std::memory_order_relaxed) == self;
    }

    void unlock() noexcept VERGE_RELEASE() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        if (by_bias_) [[likely]] {
            // release: pairs with the acquire in revoke().
            inside_.store(0, std::memory_order_release);
        } else {
            lock_.unlock();
        }
    }

private:
    [[gnu::noinline]] void lock_without_bias(std::uint32_t self) noexcept
        VERGE_NO_THREAD_SAFETY_ANALYSIS {
        if (disabled_) {
            // relaxed, twice: no other thread reads them concurrently.
            bias_.store(self, std::memory_order_relaxed);
            inside_.store(1, std::memory_order_relaxed);
            by_bias_ = true;
            return;
        }
        lock_.lock();
        // relaxed: written under lock_, which is held.
        if (bias_.load(std::memory_order_relaxed) != 0) revoke();
        by_bias_ = false;
        if (owner_ == self) owner_ = 0;
        if (last_ != self) {
            last_ = self;
            in_a_row_ = 0;
        } else if (++in_a_row_ >> threshold_ != 0) {
            in_a_row_ = 0;
            bias_to(self);
        }
    }

    void bias_to(std::uint32_t self) noexcept {
        if (!Platform::has_heavy_fence() || self >= shared_number) return;
        if (owner_ != 0) {
            if (!Platform::has_ended(owner_kernel_number_)) {
                raise_threshold();
                return;
            }
            // relaxed: the owner has ended; in a forked child perhaps just after it wrote 1.
            inside_.store(0, std::memory_order_relaxed);
        }
        owner_ = self;
        owner_kernel_number_ = Platform::kernel_number();
        granted_at_ = Platform::ticks();
        // relaxed: the next reader that acts on it is this thread, or holds lock_.
        bias_.store(self, std::memory_order_relaxed);
    }

    void revoke() noexcept {
        // relaxed: before the fence; pairs with the one in lock_as().
        bias_.store(0, std::memory_order_relaxed);
        Platform::heavy_fence();
        // acquire: pairs with the release in unlock().
        for (unsigned round = 0; inside_.load(std::memory_order_acquire) != 0; ++round)
            back_off(round);
        // A bias that was revoked too early did not pay off: the next one needs a longer row.
        if (Platform::ticks() - granted_at_ >= Platform::worthwhile) {
            threshold_ = Platform::threshold;
        } else {
            raise_threshold();
        }
    }

    void raise_threshold() noexcept {
        if (threshold_ < max_threshold) ++threshold_;
    }

    static void back_off(unsigned round) noexcept {
        if (round < 64) {
            Platform::pause();
        } else {
            Platform::give_way(round - 64);
        }
    }

    template <class T>
    using atomic = typename Platform::template atomic<T>;

    static constexpr std::uint8_t max_threshold = 15;
    static constexpr std::uint8_t no_bias =
        16;  // 2^16 times in a row: in_a_row_ does not get there

    basic_spin_lock<Platform> lock_;
    atomic<std::uint32_t> bias_{0};   // written by the holder of lock_
    atomic<std::uint8_t> inside_{0};  // written by owner_
    bool disabled_ = false;           // written before the first lock()
    // Written by the holder of the lock:
    bool by_bias_ = false;                          // how it is held
    std::uint8_t threshold_ = Platform::threshold;  // a bias takes 2^threshold_ in a row
    std::uint32_t owner_ = 0;
    std::int32_t owner_kernel_number_ = 0;
    std::uint32_t granted_at_ = 0;  // when the last bias was granted
    std::uint32_t last_ = 0;        // the thread that took lock_ last
    std::uint16_t in_a_row_ = 0;    // how often in a row it did
};

using biased_lock = basic_biased_lock<bias_platform>;
static_assert(sizeof(biased_lock) == 32);  // leaves half a cache line for what it guards

}  // namespace verge::detail
