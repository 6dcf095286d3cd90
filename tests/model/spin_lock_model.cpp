// mutates: include/verge/base/detail/spin_lock.hpp
//
// Explores the interleavings of threads that take a spin lock: one holder at a time, and each sees
// what the one before wrote.  Exits with 1 and prints the guilty history if an assertion fails.

#include "relacy_std.hpp"
#include <verge/base/detail/spin_lock.hpp>

namespace {

struct model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    static void pause() { rl::yield(1, $); }
    static void give_way(unsigned) { rl::yield(1, $); }
};

using lock_type = verge::detail::basic_spin_lock<model_platform>;

// rl::var reports any access that is not ordered after the last one: a race is found even if the
// values come out right.
struct excludes_and_publishes : rl::test_suite<excludes_and_publishes, 3> {
    lock_type lock;
    rl::var<int> counter;
    void before() { counter($) = 0; }
    void thread(unsigned) {
        lock.lock();
        counter($) = counter($) + 1;
        lock.unlock();
    }
    void after() { RL_ASSERT(counter($) == 3); }
};

struct try_lock_excludes_and_publishes : rl::test_suite<try_lock_excludes_and_publishes, 2> {
    lock_type lock;
    rl::var<int> counter;
    rl::var<int> entered[2];
    void before() { counter($) = 0, entered[0]($) = 0, entered[1]($) = 0; }
    void thread(unsigned index) {
        for (int round = 0; round < 2; ++round) {
            if (!lock.try_lock()) continue;
            counter($) = counter($) + 1;
            entered[index]($) = entered[index]($) + 1;
            lock.unlock();
        }
    }
    void after() { RL_ASSERT(counter($) == entered[0]($) + entered[1]($)); }
};

}  // namespace

int main() {
    const bool ok = explore<excludes_and_publishes>(random_ones, 100'000) &&
                    explore<try_lock_excludes_and_publishes>(random_ones, 100'000);
    return ok ? 0 : 1;
}
