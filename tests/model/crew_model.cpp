// mutates: include/verge/fibers/detail/crew.hpp
//
// Explores the interleavings of a worker that lets go of its thread with those who make work and
// those who go to sleep.  Exits with 1 and prints the guilty history if an assertion fails.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/base/clock.hpp>
#include <verge/base/parker.hpp>

#include "queue_platform.hpp"

#include <verge/fibers/detail/crew.hpp>
#include <verge/fibers/detail/parking_lot.hpp>
#include <verge/fibers/detail/remote_queue.hpp>
// clang-format on

namespace {

struct task {
    task* next = nullptr;
};

struct crew_model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    static void wake_one(rl::atomic<std::uint32_t>&) {}
};

using crew = verge::fibers::detail::basic_crew<crew_model_platform>;
using lot_type = verge::fibers::detail::basic_parking_lot<crew_model_platform>;
using remote_type = verge::fibers::detail::remote_queue<task, queue_model_platform>;

template <class Suite>
struct crew_suite : rl::test_suite<Suite, 2> {
    read_log logs[most_threads];
    lot_type lot;
    crew threads;
    remote_type remote;
    task work;
    bool ended = false;
    bool woke = false;
    crew_suite() { read_log::logs = logs; }
    void before() {
        threads.count_in();
        lot.start_searching();
    }
    // The worker that searches, and would end.
    void end() {
        ended = threads.let_go(lot, [&] { return !remote.empty(); });
    }
};

// K1.  All others are stuck, so nobody waits; or one waits, and is not woken while another
// searches.
template <bool OneWaits>
struct work_meets_an_end : crew_suite<work_meets_an_end<OneWaits>> {
    bool grew = false;
    void before() {
        crew_suite<work_meets_an_end>::before();
        if (OneWaits) static_cast<void>(this->lot.prepare());
    }
    void thread(unsigned index) {
        if (index == 0) return this->end();
        this->remote.push(&this->work);
        this->woke = this->lot.notify();
        if (!this->woke && this->lot.waiters() == 0) grew = this->threads.incomplete(1);
        this->remote.leave();
    }
    void after() { RL_ASSERT(!this->ended || this->woke || grew); }
};

// K2.  A worker goes to sleep while another ends: it is woken, or sees the thread to be joined.
struct an_end_is_noticed : crew_suite<an_end_is_noticed> {
    bool seen = false;
    void thread(unsigned index) {
        if (index == 0) {
            end();
            RL_ASSERT(ended);
            woke = lot.notify();
        } else {
            static_cast<void>(lot.prepare());
            seen = threads.any_ended();
        }
    }
    void after() { RL_ASSERT(woke || seen); }
};

}  // namespace

int main() {
    const bool ok = explore<work_meets_an_end<false>>(random_ones, 50'000) &&
                    explore<work_meets_an_end<true>>(random_ones, 50'000) &&
                    explore<an_end_is_noticed>(random_ones, 50'000);
    return ok ? 0 : 1;
}
