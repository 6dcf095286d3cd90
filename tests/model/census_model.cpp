// mutates: include/verge/fibers/detail/census.hpp
//
// Explores the interleavings of workers that spawn and finish fibers, threads outside that spawn,
// and those who wait for the end of all.  Exits with 1 and prints the guilty history if an
// assertion fails; a wake-up that is lost is a thread that waits for ever, which relacy reports as
// a live-lock.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/base/clock.hpp>
#include <verge/sync/wait.hpp>

#include <optional>

#include "word_waits.hpp"

#include <verge/fibers/detail/census.hpp>
// clang-format on

namespace {

using census = verge::fibers::detail::basic_census<word_platform>;

struct worker {
    census::part counts;
};

template <class Suite, int Threads>
struct census_suite : rl::test_suite<Suite, Threads> {
    std::optional<word_waits> waits;
    std::optional<census> fibers;
    std::optional<worker> made[2];
    worker* workers[2] = {};
    rl::var<int> written[2];  // by fibers
    void before() {
        waits.emplace();
        word_waits::here = &*waits;
        fibers.emplace();
        for (int i = 0; i < 2; ++i) {
            workers[i] = &made[i].emplace();
            written[i]($) = 0;
        }
    }
    void after() {
        for (auto& each : made)
            each.reset();
        fibers.reset();
        waits.reset();
    }
    void wait_for_all() { RL_ASSERT(fibers->wait(workers, verge::never)); }
};

// A fiber that was spawned outside spawns one on another worker and ends.  Who waits, from the
// beginning or only now, returns when both are over, and sees what they wrote.
template <int Waiters>
struct all_are_waited_for : census_suite<all_are_waited_for<Waiters>, Waiters + 2> {
    rl::atomic<int> queue;  // the other worker's
    void before() {
        census_suite<all_are_waited_for, Waiters + 2>::before();
        queue.store(0, rl::mo_relaxed, $);
        this->fibers->spawn_one_outside();
    }
    void thread(unsigned index) {
        if (index >= 2) {
            this->wait_for_all();
            RL_ASSERT(this->written[0]($) + this->written[1]($) == 2);
            return;
        }
        if (index == 0) {
            this->workers[0]->counts.spawn_one();
            queue.store(1, rl::mo_release, $);
        } else {
            while (queue.load(rl::mo_acquire, $) == 0)
                rl::yield(1, $);
        }
        this->written[index]($) = 1;
        this->workers[index]->counts.finish_one();
        this->fibers->look(this->workers);
    }
};

// A thread outside spawns while the scheduler stops: it is refused, or what it spawned is waited
// for.
struct a_stop_meets_a_spawn : census_suite<a_stop_meets_a_spawn, 3> {
    rl::atomic<int> queue;  // 1: a fiber; 2: there will be none
    bool accepted = false;
    void before() {
        census_suite::before();
        queue.store(0, rl::mo_relaxed, $);
        accepted = false;
    }
    void thread(unsigned index) {
        if (index == 0) {
            fibers->spawn_one_outside();
            accepted = !fibers->closed();
            if (!accepted) fibers->take_back_outside(workers);
            queue.store(accepted ? 1 : 2, rl::mo_release, $);
        } else if (index == 1) {
            fibers->close();
            wait_for_all();
            if (accepted) RL_ASSERT(written[0]($) == 1);
        } else {
            while (queue.load(rl::mo_acquire, $) == 0)
                rl::yield(1, $);
            if (queue.load(rl::mo_relaxed, $) == 2) return;
            written[0]($) = 1;
            workers[0]->counts.finish_one();
            fibers->look(workers);
        }
    }
};

}  // namespace

int main() {
    const bool ok = explore<all_are_waited_for<1>>(random_ones, 100'000) &&
                    explore<all_are_waited_for<2>>(random_ones, 50'000) &&
                    explore<a_stop_meets_a_spawn>(random_ones, 100'000);
    return ok ? 0 : 1;
}
