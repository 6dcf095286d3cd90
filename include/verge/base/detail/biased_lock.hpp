// verge/base/detail/biased_lock.hpp -- a spin lock that costs the thread that uses it most next to
// nothing.
//
// A spin lock is taken by an exchange, some 8 ns even if nobody else is there.  But a shard of
// timers is used by one thread for millions of operations on end, and by another now and then: the
// one that fires, one that looks at statistics.  So the lock leans to a thread that took it many
// times in a row.  That thread takes it by a store and a load, without any atomic operation or
// fence; another one takes the lock back first, and pays for both: it has the kernel put a fence
// into every running thread of the process (membarrier, 0.2 to 2 us).
//
// Where the kernel has no membarrier the lock leans to nobody: it is the spin lock that it
// contains.  And where its user sees to it that threads never meet, it can be left out: then it
// leans to whoever comes, at once.
//
// States
//   bias_     0: to nobody, the spin lock decides.  Else: to the thread of that number.
//   inside_   1 while that thread holds the lock by the bias, or tries to.
//   lock_     held by who took the lock without the bias.
//   owner_    the thread that may write inside_, also when the bias was taken back: it may have
//             looked at bias_ before that, and go on any time later.  0: none.
//
// Invariants
//   B1  bias_ is written by the holder of lock_ only, unless the lock is left out.  Only a thread
//       itself sets it to its number.
//   B2  Who holds lock_ and has seen bias_ 0, or set it to 0 and then seen inside_ 0, is alone:
//       the other one's next look at bias_ finds 0.
//   B3  Who set inside_ and then finds bias_ its own is alone: who takes the bias away waits.
//   B4  One thread at most writes inside_.  The lock leans to another one only when the last owner
//       has come by lock_ since, and so is done with inside_, or has ended.
//
// Memory orders
//   The owner stores inside_, then loads bias_; who takes the bias away stores bias_, then loads
//   inside_: one of them must see the other.  That takes a fence on both sides.  heavy_fence() is
//   one for both: each thread passes one somewhere during the call, so the owner's own is only for
//   the compiler (light_fence()).  The model has two fences, which is what the pair promises.
//   inside_ goes back to 0 with release, and is waited for with acquire: what the owner wrote is
//   seen by who took the bias away.  The other way, through lock_: the bias comes back only there.

#pragma once

#include <verge/base/detail/assert.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/base/detail/thread_annotations.hpp>
#include <verge/base/detail/thread_number.hpp>

#include <atomic>
#include <cstdint>

namespace verge::detail {

/// What a biased lock needs from below.  The tests supply a model.
struct bias_platform : spin_platform {
    /// The number of the calling thread; not 0.  From shared_number on it gets no bias.
    static std::uint32_t self() noexcept { return thread_number(); }

    /// A fence for the calling thread, as far as others call heavy_fence().
    static void light_fence() noexcept {
        __asm__ __volatile__("" ::: "memory");  // for the compiler; heavy_fence() does the rest
    }

    /// A fence for every thread of the process.
    static void heavy_fence() noexcept;

    /// Whether the kernel has one.
    [[nodiscard]] static bool has_heavy_fence() noexcept;

    /// How often in a row a thread takes the lock before it leans to that one, as a power of 2: by
    /// then it has paid about what it costs to take a bias back.
    static constexpr std::uint8_t patience = 7;

    /// Time in microseconds, and how long a bias must last to be worth it: then the fences take 1 %
    /// of it at most.
    static std::uint32_t ticks() noexcept;
    static constexpr std::uint32_t worthwhile = 100;

    /// The kernel's number of the calling thread, and whether that thread has ended.
    static std::int32_t kernel_number() noexcept;
    [[nodiscard]] static bool has_ended(std::int32_t kernel_number) noexcept;
};

template <class Platform>
class VERGE_CAPABILITY("mutex") basic_biased_lock {
public:
    void lock() noexcept VERGE_ACQUIRE() { lock_as(Platform::self()); }

    /// lock(), for who knows that it is the thread of this number.
    void lock_as(std::uint32_t self) noexcept VERGE_ACQUIRE() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        // relaxed: a first look.
        if (bias_.load(std::memory_order_relaxed) == self) [[likely]] {
            VERGE_ASSERT(inside_.load(std::memory_order_relaxed) == 0,  // relaxed: its own
                         "a lock is taken twice by one thread");
            // relaxed, twice: a fence is between them; pairs with the one in take_back().
            inside_.store(1, std::memory_order_relaxed);
            Platform::light_fence();
            if (bias_.load(std::memory_order_relaxed) == self) [[likely]] {
                by_bias_ = true;
                return;
            }
            // release: who sees this 0 is to see what this thread did when it held the lock.
            // not mutated: relacy counts a thread's later stores to its release, as C++ did
            // until 20.
            inside_.store(0, std::memory_order_release);
        }
        lock_without_bias(self);
    }

    /// From now on no two threads meet here: what one does happens before what another does next.
    /// Before it is first taken.
    void leave_out() noexcept { left_out_ = true; }

    /// Whether it leans to the thread of this number, for the time being.
    [[nodiscard]] bool leans_to(std::uint32_t self) const noexcept {
        // relaxed: a guess.
        return bias_.load(std::memory_order_relaxed) == self;
    }

    void unlock() noexcept VERGE_RELEASE() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        if (by_bias_) [[likely]] {
            // release: pairs with the acquire in take_back().
            inside_.store(0, std::memory_order_release);
        } else {
            lock_.unlock();
        }
    }

private:
    [[gnu::noinline]] void lock_without_bias(std::uint32_t self) noexcept
        VERGE_NO_THREAD_SAFETY_ANALYSIS {
        if (left_out_) {
            // relaxed, twice: nobody else looks at them before this thread is done.
            bias_.store(self, std::memory_order_relaxed);
            inside_.store(1, std::memory_order_relaxed);
            by_bias_ = true;
            return;
        }
        lock_.lock();
        // relaxed: written under lock_, which is held.
        if (bias_.load(std::memory_order_relaxed) != 0) take_back();
        by_bias_ = false;
        if (owner_ == self) owner_ = 0;
        if (last_ != self) {
            last_ = self;
            in_a_row_ = 0;
        } else if (++in_a_row_ >> patience_ != 0) {
            in_a_row_ = 0;
            lean_to(self);
        }
    }

    void lean_to(std::uint32_t self) noexcept {
        if (!Platform::has_heavy_fence() || self >= shared_number) return;
        if (owner_ != 0) {
            if (!Platform::has_ended(owner_kernel_number_)) {
                lose_patience();
                return;
            }
            // relaxed: it has ended; in a forked child perhaps when it had just written 1.
            inside_.store(0, std::memory_order_relaxed);
        }
        owner_ = self;
        owner_kernel_number_ = Platform::kernel_number();
        granted_at_ = Platform::ticks();
        // relaxed: the next one to look at it is this thread, or holds lock_.
        bias_.store(self, std::memory_order_relaxed);
    }

    void take_back() noexcept {
        // relaxed: before the fence; pairs with the one in lock_as().
        bias_.store(0, std::memory_order_relaxed);
        Platform::heavy_fence();
        // acquire: pairs with the release in unlock().
        for (unsigned round = 0; inside_.load(std::memory_order_acquire) != 0; ++round)
            back_off(round);
        // What was taken back at once did not pay: then it takes longer until the next time.
        if (Platform::ticks() - granted_at_ >= Platform::worthwhile) {
            patience_ = Platform::patience;
        } else {
            lose_patience();
        }
    }

    void lose_patience() noexcept {
        if (patience_ < longest_patience) ++patience_;
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

    static constexpr std::uint8_t longest_patience = 15;

    basic_spin_lock<Platform> lock_;
    atomic<std::uint32_t> bias_{0};   // written by the holder of lock_
    atomic<std::uint8_t> inside_{0};  // written by owner_
    bool left_out_ = false;           // written before all
    // By the holder of the lock:
    bool by_bias_ = false;                        // how it is held
    std::uint8_t patience_ = Platform::patience;  // a bias takes 2 to the power of that in a row
    std::uint32_t owner_ = 0;
    std::int32_t owner_kernel_number_ = 0;
    std::uint32_t granted_at_ = 0;  // when it last began to lean
    std::uint32_t last_ = 0;        // who took lock_ last
    std::uint16_t in_a_row_ = 0;    // how often
};

using biased_lock = basic_biased_lock<bias_platform>;
static_assert(sizeof(biased_lock) == 32);  // leaves half a cache line for what it guards

}  // namespace verge::detail
