// mutates: include/verge/driver/timer_service.hpp include/verge/driver/detail/timer_shard.hpp
//
// Explores the interleavings of threads that arm, cancel, rearm, collect and run on a timer
// service. Exits with 1 and prints the guilty history if an assertion fails.
//
// The lock, the atomics and the futex are relacy's.  The wheel and the slots are the real ones:
// only the lock protects them, so each payload carries an rl::var, which reports any access that is
// not ordered after the last one.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/detail/slot_pool.hpp>
#include <verge/base/histogram.hpp>
#include <verge/base/parker.hpp>
#include <verge/queue/timing_wheel.hpp>

#include "relacy_std.hpp"

#include <verge/driver/timer_service.hpp>
// clang-format on

#include <optional>

namespace {

using verge::duration;
using verge::time_point;

struct model_lock {
    rl::mutex mutex;
    void lock() { mutex.lock($); }
    void unlock() { mutex.unlock($); }
};

struct model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    using lock = model_lock;
    struct running_scope {
        running_scope(const void*, verge::timer_id) {}
        static bool inside_timer(verge::timer_id) { return false; }
        template <class F>
        static void for_each_inside(const void*, F&&) {}
    };
    static unsigned thread_number() { return rl::thread_index(); }
    static void wait_while(rl::atomic<std::uint32_t>& word, std::uint32_t value) {
        // A futex may return for no reason: one look, and a chance for the others.
        if (word.load(rl::mo_relaxed, $) == value) rl::yield(1, $);
    }
    static void wake_all(rl::atomic<std::uint32_t>&) {}
};

struct note {
    rl::var<int>* written = nullptr;  // what the "callback" writes

    // Whether it is made and destroyed outside the lock, as a payload that runs user code is.
    static inline bool loud = false;
    static bool has_trivial_move() { return !loud; }
    static bool has_trivial_destroy() { return !loud; }
};

using service = verge::basic_timer_service<note, model_platform>;

constexpr time_point at(int ns) {
    return time_point(duration(ns));
}

// A waiter that sleeps until woken or until its deadline, as a parker: the wake-up is a stored
// token.
struct waker : verge::timer_waker {
    rl::atomic<int> token;
    void wake_before(time_point) noexcept override { token.store(1, rl::mo_release, $); }
};

template <class Suite, int Threads>
struct service_suite : rl::test_suite<Suite, Threads> {
    waker bell;
    std::optional<service> timers;
    void before() {
        bell.token.store(0, rl::mo_relaxed, $);
        timers.emplace(bell, verge::timer_service_options{.shards = 2});
    }
    void after() { timers.reset(); }
};

// An earlier deadline always shortens the sleep: after prepare_wait() returned m, a timer below m
// is either in m already, or the bell is rung.
template <int Armers>
struct earlier_deadline_wakes : service_suite<earlier_deadline_wakes<Armers>, Armers + 1> {
    rl::atomic<int> armed[Armers];
    void before() {
        service_suite<earlier_deadline_wakes, Armers + 1>::before();
        for (auto& a : armed)
            a.store(0, rl::mo_relaxed, $);
    }
    void thread(unsigned index) {
        if (index < Armers) {
            this->timers->arm(at(100 - static_cast<int>(index)), note{});
            armed[index].store(1, rl::mo_relaxed, $);
            return;
        }
        // The waiter's loop: a sleep for ever is what relacy reports as a live-lock.
        int collected = 0;
        while (collected < Armers) {
            verge::due_timer due[4];
            const auto count = this->timers->collect(at(100), due, 4);
            for (std::size_t i = 0; i < count; ++i) {
                const auto timer = this->timers->begin(due[i]);
                RL_ASSERT(static_cast<bool>(timer));
                this->timers->end(timer);
                ++collected;
            }
            if (count > 0) continue;
            if (this->timers->prepare_wait() != verge::never) continue;  // something to collect
            while (this->bell.token.exchange(0, rl::mo_acquire, $) == 0)
                rl::yield(1, $);
        }
    }
};

// The same, for a waiter that has slept for a far timer, and finds out whether it was cancelled.
struct an_early_look_misses_nothing : service_suite<an_early_look_misses_nothing, 3> {
    static time_point second(int n) { return time_point(std::chrono::seconds(n)); }
    verge::timer_id far;
    void before() {
        bell.token.store(0, rl::mo_relaxed, $);
        timers.emplace(bell, verge::timer_service_options{.shards = 1});
        far = timers->arm(second(64), note{});
        RL_ASSERT(timers->prepare_wait(second(0)) == second(63));
    }
    void thread(unsigned index) {
        if (index == 0) {
            timers->cancel(far);
            return;
        }
        if (index == 1) {
            timers->arm(second(50), note{});
            return;
        }
        for (;;) {
            verge::due_timer due[4];
            if (timers->collect(second(50), due, 4) == 1) return;
            if (timers->prepare_wait(second(20)) <= second(50)) continue;
            while (bell.token.exchange(0, rl::mo_acquire, $) == 0)
                rl::yield(1, $);
        }
    }
};

// cancel x fire: exactly one of them ends the timer, and who is told `gone` sees what it wrote.
struct cancel_meets_fire : service_suite<cancel_meets_fire, 2> {
    rl::var<int> written;
    verge::timer_id id;
    int ran = 0;
    int cancelled = 0;
    void before() {
        service_suite::before();
        written($) = 0;
        ran = cancelled = 0;
        id = timers->arm(at(10), note{&written});
    }
    void thread(unsigned index) {
        if (index == 0) {
            const auto result = timers->cancel(id);
            if (result == verge::cancel_result::cancelled) cancelled = 1;
            if (result == verge::cancel_result::gone) RL_ASSERT(written($) == 1);
            return;
        }
        verge::due_timer due[4];
        const auto count = timers->collect(at(10), due, 4);
        for (std::size_t i = 0; i < count; ++i) {
            const auto timer = timers->begin(due[i]);
            if (!timer) continue;
            (*timer.payload().written)($) = 1;
            ran = 1;
            timers->end(timer);
        }
    }
    void after() {
        RL_ASSERT(ran + cancelled == 1);
        service_suite::after();
    }
};

// cancel_and_wait: when it returns, the callback has not begun and never will, or has ended.
struct cancel_waits_for_the_end : service_suite<cancel_waits_for_the_end, 2> {
    rl::var<int> written;
    verge::timer_id id;
    void before() {
        service_suite::before();
        written($) = 0;
        id = timers->arm(at(10), note{&written});
    }
    void thread(unsigned index) {
        if (index == 0) {
            const auto result = timers->cancel_and_wait(id);
            RL_ASSERT(result != verge::cancel_result::running);
            const int now = written($);  // a race with the callback would be reported
            RL_ASSERT((now == 1) == (result == verge::cancel_result::gone));
            return;
        }
        verge::due_timer due[4];
        const auto count = timers->collect(at(10), due, 4);
        for (std::size_t i = 0; i < count; ++i) {
            const auto timer = timers->begin(due[i]);
            if (!timer) continue;
            (*timer.payload().written)($) = 1;
            timers->end(timer);
        }
    }
};

// cancel x fire x reschedule, three threads: one end, never before the deadline that counts, and a
// timer moved to later is collected then, not lost.
struct cancel_fire_reschedule : service_suite<cancel_fire_reschedule, 3> {
    rl::var<int> written;
    verge::timer_id id;
    int ran = 0;
    int cancelled = 0;
    bool moved = false;
    int ran_at = 0;
    void before() {
        service_suite::before();
        written($) = 0;
        ran = cancelled = ran_at = 0;
        moved = false;
        id = timers->arm(at(10), note{&written});
    }
    void run_all(int now) {
        verge::due_timer due[4];
        for (;;) {
            const auto count = timers->collect(at(now), due, 4);
            if (count == 0) return;
            for (std::size_t i = 0; i < count; ++i) {
                const auto timer = timers->begin(due[i]);
                if (!timer) continue;
                (*timer.payload().written)($) = 1;
                ++ran;
                ran_at = now;
                timers->end(timer);
            }
        }
    }
    void thread(unsigned index) {
        if (index == 0) {
            if (timers->cancel(id) == verge::cancel_result::cancelled) cancelled = 1;
        } else if (index == 1) {
            moved = timers->rearm(id, at(20)) == verge::reschedule_result::pending;
        } else {
            run_all(10);
        }
    }
    void after() {
        run_all(20);
        RL_ASSERT(ran + cancelled == 1);
        if (moved && ran) RL_ASSERT(ran_at == 20);
        service_suite::after();
    }
};

// close x arm x fire: nothing is armed after close(), and every timer has one end.
struct close_meets_arm_and_fire : service_suite<close_meets_arm_and_fire, 3> {
    rl::var<int> written;
    void before() {
        service_suite::before();
        written($) = 0;
        timers->arm(at(10), note{&written});
    }
    void thread(unsigned index) {
        if (index == 0) {
            timers->close();
            timers->wait_idle();
        } else if (index == 1) {
            timers->arm(at(5), note{&written});
        } else {
            verge::due_timer due[4];
            const auto count = timers->collect(at(10), due, 4);
            for (std::size_t i = 0; i < count; ++i) {
                const auto timer = timers->begin(due[i]);
                if (!timer) continue;
                (*timer.payload().written)($) = 1;
                timers->end(timer);
            }
        }
    }
    void after() {
        const auto stats = timers->stats();
        RL_ASSERT(stats.pending == 0);
        RL_ASSERT(stats.scheduled == stats.fired + stats.dropped);
        service_suite::after();
    }
};

}  // namespace

int main() {
    // Relacy owns the heap inside an exploration and takes it back after each: the registry's
    // table, which stays, must be made before.
    const auto warm = verge::detail::slot_numbers.take();
    verge::detail::slot_numbers.give_back(warm.number, warm.generation);

    bool ok = true;
    for (const bool loud : {false, true}) {
        note::loud = loud;
        ok = ok && explore<earlier_deadline_wakes<1>>(random_ones, 50'000) &&
             explore<earlier_deadline_wakes<2>>(random_ones, 50'000) &&
             explore<an_early_look_misses_nothing>(random_ones, 30'000) &&
             explore<cancel_meets_fire>(random_ones, 30'000) &&
             explore<cancel_waits_for_the_end>(random_ones, 30'000) &&
             explore<cancel_fire_reschedule>(random_ones, 30'000) &&
             explore<close_meets_arm_and_fire>(random_ones, 30'000);
    }
    return ok ? 0 : 1;
}
