// mutates: include/verge/fibers/detail/fiber_life.hpp
//
// Explores the interleavings of a fiber's end with those who wait for it, let go of it, find it by
// its id, or stop its scheduler.  Exits with 1 and prints the guilty history if an assertion fails;
// a wake-up that is lost is a thread that waits for ever, which relacy reports as a live-lock.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/base/clock.hpp>
#include <verge/sync/wait.hpp>

#include <optional>

#include "word_waits.hpp"

#include <verge/fibers/detail/census.hpp>
#include <verge/fibers/detail/fiber_life.hpp>
// clang-format on

namespace {

using life = verge::fibers::detail::basic_fiber_life<word_platform>;
using census = verge::fibers::detail::basic_census<word_platform>;

constexpr verge::time_point some_time(verge::duration(1));

template <class Suite, int Threads>
struct life_suite : rl::test_suite<Suite, Threads> {
    std::optional<word_waits> waits;
    std::optional<life> fiber;
    rl::var<int> used[Threads];  // the record, by each who refers to it
    rl::var<int> written;        // by the fiber
    int cleared = 0;
    void before() {
        waits.emplace();
        word_waits::here = &*waits;
        fiber.emplace();
        for (auto& each : used)
            each($) = 0;
        written($) = 0;
        cleared = 0;
    }
    void after() {
        RL_ASSERT(cleared == 1);
        fiber.reset();
        waits.reset();
    }
    // The last thing that a thread does with the record.
    void drop() {
        used[rl::thread_index()]($) = 1;
        if (!fiber->drop()) return;
        for (auto& each : used)  // F2
            each($) = 2;
        ++cleared;
    }
    // The fiber, on its worker.
    void run() {
        written($) = 1;
        fiber->finish();
        drop();
    }
};

// F1 to F3.  Those who wait see what the fiber wrote, and all wake, also if one gives up; the last
// one clears the record.
template <int Waiters, bool Timed>
struct its_end_is_waited_for : life_suite<its_end_is_waited_for<Waiters, Timed>, Waiters + 1> {
    void before() {
        life_suite<its_end_is_waited_for, Waiters + 1>::before();
        this->fiber->begin(true);
        for (int i = 1; i < Waiters; ++i)
            this->fiber->add();
    }
    void thread(unsigned index) {
        if (index == 0) return this->run();
        const bool over = this->fiber->wait(Timed && index == 1 ? some_time : verge::never);
        RL_ASSERT(over || (Timed && index == 1));
        if (over) RL_ASSERT(this->written($) == 1);
        this->drop();
    }
};

// Who only looks sees the same.
struct its_end_is_seen : life_suite<its_end_is_seen, 2> {
    void before() {
        life_suite::before();
        fiber->begin(true);
    }
    void thread(unsigned index) {
        if (index == 0) return run();
        if (fiber->done()) RL_ASSERT(written($) == 1);
        drop();
    }
};

// F4.  The exception of a fiber that fails while its handle lets go of it is reported once.
struct a_failure_is_reported_once : life_suite<a_failure_is_reported_once, 2> {
    rl::var<int> error;
    int reports = 0;
    void before() {
        life_suite::before();
        fiber->begin(true);
        error($) = 0;
        reports = 0;
    }
    void report() {
        RL_ASSERT(error($) == 1);
        error($) = 0;
        ++reports;
    }
    void thread(unsigned index) {
        if (index == 0) {
            error($) = 1;
            if (fiber->fail()) report();
            fiber->finish();
        } else if (fiber->detach()) {
            report();
        }
        drop();
    }
    void after() {
        RL_ASSERT(reports == 1);
        life_suite::after();
    }
};

// One that nobody joins from the beginning reports by itself.
struct nobody_joins : life_suite<nobody_joins, 1> {
    void before() {
        life_suite::before();
        fiber->begin(false);
    }
    void thread(unsigned) {
        RL_ASSERT(fiber->fail());
        run();
    }
};

// A record that is used twice, in a pool: who looks for the first fiber by its id finds that one as
// it was spawned, or none.
template <int Finders>
struct an_id_names_one_fiber : rl::test_suite<an_id_names_one_fiber<Finders>, Finders + 1> {
    std::optional<word_waits> waits;
    std::optional<life> record;
    rl::mutex pool;
    int generation = 0;  // under the pool's lock; even while it is free
    rl::var<int> content;
    void before() {
        waits.emplace();
        word_waits::here = &*waits;
        record.emplace();
        generation = 0;
        content($) = 0;
    }
    void after() {
        record.reset();
        waits.reset();
    }
    void drop() {
        if (!record->drop()) return;
        content($) = 0;
        pool.lock($);
        ++generation;
        pool.unlock($);
    }
    void spawn_and_end() {
        pool.lock($);
        const int taken = generation % 2 == 0 ? ++generation : 0;
        pool.unlock($);
        if (taken == 0) return;  // somebody still refers to the first one
        content($) = taken;
        record->begin(false);
        record->finish();
        drop();
    }
    void thread(unsigned index) {
        if (index == 0) {
            spawn_and_end();
            spawn_and_end();
            return;
        }
        pool.lock($);
        const bool found = generation == 1 && record->try_add();
        pool.unlock($);
        if (!found) return;
        RL_ASSERT(content($) == 1);
        drop();
    }
};

// F5.  A fiber is spawned while its scheduler stops: it is asked to stop, by one of both.
struct a_stop_finds_every_fiber : life_suite<a_stop_finds_every_fiber, 2> {
    std::optional<census> all;
    int asked = 0;
    void before() {
        life_suite::before();
        all.emplace();
        asked = 0;
    }
    void thread(unsigned index) {
        if (index == 0) {
            fiber->begin(false);
            if (all->closed()) ++asked;
            return;
        }
        all->close();
        if (!fiber->try_add()) return;
        ++asked;
        RL_ASSERT(!fiber->drop());
    }
    void after() {
        RL_ASSERT(asked >= 1);
        cleared = 1;  // it has not run
        life_suite::after();
        all.reset();
    }
};

}  // namespace

int main() {
    const bool ok =
        explore<its_end_is_waited_for<1, false>>(random_ones, 50'000) &&
        explore<its_end_is_waited_for<2, false>>(random_ones, 50'000) &&
        explore<its_end_is_waited_for<2, true>>(random_ones, 50'000) &&
        explore<its_end_is_seen>(every, 0) && explore<a_failure_is_reported_once>(every, 0) &&
        explore<nobody_joins>(every, 0) && explore<an_id_names_one_fiber<1>>(random_ones, 50'000) &&
        explore<an_id_names_one_fiber<2>>(random_ones, 50'000) &&
        explore<a_stop_finds_every_fiber>(every, 0);
    return ok ? 0 : 1;
}
