// mutates: include/verge/fiber/detail/census.hpp
//
// Explores the interleavings of workers that spawn and finish fibers, threads outside that spawn,
// and those who wait for the end of all.  Exits with 1 and prints the guilty history if an
// assertion fails; a wake-up that is lost is a thread that waits for ever, which relacy reports as
// a live-lock.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/base/clock.hpp>
#include <verge/fiber/wait.hpp>

#include <optional>

#include "relacy_std.hpp"

#include <verge/fiber/detail/census.hpp>
// clang-format on

namespace {

// Waits on a word, which end by a notify only: a look now and then would hide one that is missing.
struct word_waits {
    rl::mutex lock;
    int notified = 0;  // under the lock
    static inline word_waits* here = nullptr;
};

struct model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    static void wait(rl::atomic<std::uint32_t>& word, std::uint32_t value, verge::time_point) {
        word_waits& all = *word_waits::here;
        all.lock.lock($);
        const int before = all.notified;
        const bool changed = word.load(rl::mo_relaxed, $) != value;
        all.lock.unlock($);
        while (!changed && all.notified == before)
            rl::yield(1, $);
    }
    static void notify_all(rl::atomic<std::uint32_t>&) {
        word_waits& all = *word_waits::here;
        all.lock.lock($);
        ++all.notified;
        all.lock.unlock($);
    }
    static bool has_come(verge::time_point) { return false; }
};

using census = verge::fibers::detail::basic_census<model_platform>;

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
    rl::atomic<int> stopping;
    rl::atomic<int> queue;  // 1: a fiber; 2: there will be none
    bool accepted = false;
    void before() {
        census_suite::before();
        stopping.store(0, rl::mo_relaxed, $);
        queue.store(0, rl::mo_relaxed, $);
        accepted = false;
    }
    void thread(unsigned index) {
        if (index == 0) {
            fibers->spawn_one_outside();
            accepted = stopping.load(rl::mo_seq_cst, $) == 0;
            if (!accepted) fibers->take_back_outside(workers);
            queue.store(accepted ? 1 : 2, rl::mo_release, $);
        } else if (index == 1) {
            stopping.store(1, rl::mo_seq_cst, $);
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
