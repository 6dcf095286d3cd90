// mutates: include/verge/base/detail/biased_lock.hpp
//
// Explores threads that take a biased lock: one holder at a time, and each sees what the one before
// wrote, while the lock begins to lean to a thread and is taken back from it.  Exits with 1 and
// prints the guilty history if an assertion fails.
//
// The kernel's fence in every thread is a fence on both sides here: that is what it promises.

#include "relacy_std.hpp"
#include <verge/base/detail/biased_lock.hpp>

namespace {

struct model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    static void pause() { rl::yield(1, $); }
    static void give_way(unsigned) { rl::yield(1, $); }
    static std::uint32_t self() { return rl::thread_index() + 1; }
    static void light_fence() { rl::atomic_thread_fence(rl::mo_seq_cst, $); }
    static void heavy_fence() { rl::atomic_thread_fence(rl::mo_seq_cst, $); }
    static bool has_heavy_fence() { return true; }
    static std::uint32_t ticks() { return 0; }
    static std::int32_t kernel_number() { return static_cast<std::int32_t>(rl::thread_index()); }
    static bool has_ended(std::int32_t thread) {
        return ended != nullptr && ended[thread].load(rl::mo_acquire, $) != 0;
    }
    // It leans to who takes it twice in a row, and all the same after it was taken back.
    static constexpr std::uint8_t threshold = 0;
    static constexpr std::uint32_t worthwhile = 0;

    // A thread that has ended has written all that it ever will: so this is released, and acquired.
    static inline rl::atomic<int>* ended = nullptr;
};

using lock_type = verge::detail::basic_biased_lock<model_platform>;

// rl::var reports any access that is not ordered after the last one: a race is found even if the
// values come out right.
template <unsigned Threads>
struct excludes_and_publishes : rl::test_suite<excludes_and_publishes<Threads>, Threads> {
    static constexpr int rounds = 4;
    lock_type lock;
    rl::var<int> counter;
    void before() { counter($) = 0; }
    void thread(unsigned index) {
        // The first one gets the bias, and perhaps again; the others come in between.
        for (int i = 0; i < (index == 0 ? rounds : 1); ++i) {
            lock.lock();
            counter($) = counter($) + 1;
            lock.unlock();
        }
    }
    void after() { RL_ASSERT(counter($) == rounds + static_cast<int>(Threads) - 1); }
};

// Both get it in turn.
struct changes_sides : rl::test_suite<changes_sides, 2> {
    lock_type lock;
    rl::var<int> counter;
    void before() { counter($) = 0; }
    void thread(unsigned) {
        for (int i = 0; i < 3; ++i) {
            lock.lock();
            counter($) = counter($) + 1;
            lock.unlock();
        }
    }
    void after() { RL_ASSERT(counter($) == 6); }
};

// All of them may get it; who has ended makes room for the next.
struct changes_sides_when_an_owner_ends : rl::test_suite<changes_sides_when_an_owner_ends, 3> {
    lock_type lock;
    rl::var<int> counter;
    rl::atomic<int> ended[3];
    void before() {
        counter($) = 0;
        for (rl::atomic<int>& each : ended)
            each.store(0, rl::mo_relaxed, $);
        model_platform::ended = ended;
    }
    void thread(unsigned index) {
        for (int i = 0; i < 3; ++i) {
            lock.lock();
            counter($) = counter($) + 1;
            lock.unlock();
        }
        ended[index].store(1, rl::mo_release, $);
    }
    void after() {
        RL_ASSERT(counter($) == 9);
        model_platform::ended = nullptr;
    }
};

}  // namespace

int main() {
    const bool ok = explore<excludes_and_publishes<2>>(random_ones, 200'000) &&
                    explore<excludes_and_publishes<3>>(random_ones, 100'000) &&
                    explore<changes_sides>(random_ones, 200'000) &&
                    explore<changes_sides_when_an_owner_ends>(random_ones, 200'000);
    return ok ? 0 : 1;
}
