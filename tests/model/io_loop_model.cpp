// mutates: src/io/loop_core.cpp src/io/loop_timers.cpp
// mutates: include/verge/io/detail/loop_core.hpp include/verge/io/detail/loop_timers.hpp
// mutates: include/verge/io/detail/op_inbox.hpp
//
// Explores the interleavings of threads that run an event loop, post to it, end its work, and arm,
// cancel, re-arm and destroy its timers; and its end, while others are still on their way out of
// it.  Exits with 1 and prints the guilty history if an
// assertion fails; a wake-up that is lost is a thread that sleeps for ever, which relacy reports as
// a live-lock.
//
// The loop and the service of timers are the real source files, compiled here with other
// names for what they stand on: atomics and locks of relacy, the real parker on those, and a
// reactor that is the real timer service and a kernel of one word.  That kernel orders nothing.
// Time does not pass by itself: it is as late as the last deadline that somebody slept for.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>
#include <system_error>
#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/detail/slot_pool.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/base/histogram.hpp>
#include <verge/io/associated.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/detail/bound_handler.hpp>
#include <verge/io/detail/operation.hpp>
#include <verge/io/detail/thread_cache.hpp>
#include <verge/io/error.hpp>
#include <verge/io/execution_context.hpp>
#include <verge/queue/timing_wheel.hpp>

#include "relacy_std.hpp"

#include <verge/base/parker.hpp>
#include <verge/driver/timer_service.hpp>
#include <verge/driver/reactor.hpp>
// clang-format on

namespace {

// The source keeps the innermost run() of a thread in a thread_local.  Relacy's threads are one
// thread of the system, and change at its operations only: so each of these brings the value back.
void** innermost_place = nullptr;
struct keep_innermost {
    void* mine = innermost_place != nullptr ? *innermost_place : nullptr;
    keep_innermost() = default;
    ~keep_innermost() {
        if (innermost_place != nullptr) *innermost_place = mine;
    }
};

void yield() {
    const keep_innermost keep;
    rl::yield(1, $);
}

void yield_at_most(unsigned times) {
    for (unsigned i = rl::rand(times); i > 0; --i)
        yield();
}

// Chance seldom holds a thread up for long at one place.  In some suites it happens to who has just
// linked an operation, or ended work: these are compare_exchange_weak.
bool held_up = false;

template <class T>
class loop_atomic {
public:
    // The default argument lives until the value is made.
    loop_atomic(const keep_innermost& = {}) {}
    loop_atomic(T first, const keep_innermost& = {}) : value_(first) {}
    T load(rl::memory_order order, rl::debug_info_param where) const {
        const keep_innermost keep;
        return value_.load(order, where);
    }
    void store(T next, rl::memory_order order, rl::debug_info_param where) {
        const keep_innermost keep;
        value_.store(next, order, where);
    }
    T exchange(T next, rl::memory_order order, rl::debug_info_param where) {
        const keep_innermost keep;
        return value_.exchange(next, order, where);
    }
    T fetch_add(T n, rl::memory_order order, rl::debug_info_param where) {
        const keep_innermost keep;
        return value_.fetch_add(n, order, where);
    }
    T fetch_sub(T n, rl::memory_order order, rl::debug_info_param where) {
        const keep_innermost keep;
        return value_.fetch_sub(n, order, where);
    }
    bool compare_exchange_strong(T& seen, T next, rl::memory_order yes, rl::debug_info_param where,
                                 rl::memory_order no, rl::debug_info_param where_no) {
        const keep_innermost keep;
        return value_.compare_exchange_strong(seen, next, yes, where, no, where_no);
    }
    bool compare_exchange_weak(T& seen, T next, rl::memory_order yes, rl::debug_info_param where,
                               rl::memory_order no, rl::debug_info_param where_no) {
        const keep_innermost keep;
        const bool done = value_.compare_exchange_weak(seen, next, yes, where, no, where_no);
        if (done && held_up) yield_at_most(100);
        return done;
    }

private:
    rl::atomic<T> value_;
};

// A lock that knows whether it still exists: a timer must not be used when it is destroyed.
class loop_lock {
public:
    loop_lock() { *std::find(alive, alive + most_locks, nullptr) = this; }
    ~loop_lock() { *find() = nullptr; }
    loop_lock(const loop_lock&) = delete;
    loop_lock& operator=(const loop_lock&) = delete;
    void lock() {
        const keep_innermost keep;
        mutex.lock($);
        RL_ASSERT(find() != alive + most_locks);
    }
    void unlock() {
        const keep_innermost keep;
        mutex.unlock($);
    }
    static void begin() { std::fill(alive, alive + most_locks, nullptr); }

private:
    static constexpr int most_locks = 16;
    static inline const loop_lock* alive[most_locks] = {};
    const loop_lock** find() const { return std::find(alive, alive + most_locks, this); }
    rl::mutex mutex;
};

struct loop_platform {
    template <class T>
    using atomic = loop_atomic<T>;
    using lock = loop_lock;
    struct running_scope {
        running_scope(const void*, verge::timer_id) {}
        static bool inside_timer(verge::timer_id) { return false; }
        template <class F>
        static void for_each_inside(const void*, F&&) {}
    };
    static unsigned thread_number() { return rl::thread_index(); }
    // A futex may return for no reason: one look, and a chance for the others.
    static void wait(loop_atomic<std::uint32_t>& word, std::uint32_t value, verge::time_point) {
        if (word.load(rl::mo_relaxed, $) == value) yield();
    }
    static void wait_while(loop_atomic<std::uint32_t>& word, std::uint32_t value) {
        wait(word, value, verge::never);
    }
    static void wake_one(loop_atomic<std::uint32_t>&) {}
    static void wake_all(loop_atomic<std::uint32_t>&) {}
    static verge::time_point now() { return {}; }
    static void pause() { yield(); }
    static void give_way(unsigned) { yield(); }
};

struct loop_source {
    static verge::time_point now() { return {}; }  // a sleep is always short: the leader spins
};

struct loop_timer_ref {
    struct plain {
        void* object;
    };
    loop_timer_ref(plain of) noexcept : object(of.object) {}
    void* plain_object() const { return object; }
    void* object;
};

struct loop_punctual_scope {};

class loop_reactor final : public verge::timer_waker {
public:
    using loop_timers = verge::basic_timer_service<loop_timer_ref, loop_platform>;
    struct options {
        std::size_t shards = 1;
        bool locks = true;
        void (*expired)(void*, verge::timer_id, verge::time_point, void*) = nullptr;
    };
    explicit loop_reactor(const options& o) : expired_(o.expired), timers_(*this, {.shards = 1}) {
        complete_($) = 1;
        wake_.store(0, rl::mo_relaxed, $);
        now = {};
    }
    ~loop_reactor() {
        const keep_innermost keep;
        complete_($) = 0;  // who uses it without an order with this is found
    }

    static inline verge::time_point now{};  // of the waiter

    std::size_t wait(verge::time_point until, void* sink, loop_punctual_scope*) {
        const verge::time_point nearest = std::min(until, timers_.prepare_wait());
        if (nearest >= verge::last_time) {
            while (wake_.exchange(0, rl::mo_relaxed, $) == 0)
                yield();
        } else {
            now = std::max(now, nearest);
        }
        std::size_t count = 0;
        verge::due_timer due[4];
        while (const std::size_t n = timers_.collect(now, due, 4)) {
            for (std::size_t i = 0; i < n; ++i) {
                const auto timer = timers_.begin(due[i]);
                if (!timer) continue;
                const auto when =
                    verge::time_point(verge::duration(static_cast<std::int64_t>(due[i].deadline)));
                expired_(timer.payload().plain_object(), due[i].id, when, sink);
                timers_.end(timer);
                ++count;
            }
        }
        return count;
    }
    void interrupt() {
        static_cast<void>(timers());  // it is still there
        wake_.store(1, rl::mo_relaxed, $);
    }
    void wake_before(verge::time_point) noexcept override { interrupt(); }
    loop_timers& timers() {
        const keep_innermost keep;
        RL_ASSERT(complete_($) == 1);  // who finds the reactor finds it made
        return timers_;
    }
    void cancel_all() {}
    void restart_after_fork() {}

private:
    rl::var<int> complete_;
    loop_atomic<int> wake_;
    void (*expired_)(void*, verge::timer_id, verge::time_point, void*);
    loop_timers timers_;
};

}  // namespace

namespace std {
template <class T>
using loop_atomic = ::loop_atomic<T>;
}  // namespace std
namespace verge::detail {
using loop_mutex = ::loop_lock;
}
namespace verge {
using loop_parker = basic_parker<loop_platform>;
}

#define atomic loop_atomic
#define spin_lock loop_lock
#define spin_platform loop_platform
#define parker loop_parker
#define steady_source loop_source
#define reactor loop_reactor
#define reactor_timer_ref loop_timer_ref
#define punctual_scope loop_punctual_scope
#define thread_mutex loop_mutex
#define thread_local
// clang-format off
#include "io/execution_context.cpp"
#include "io/loop_core.cpp"
#include "io/loop_timers.cpp"
// clang-format on
#undef atomic
#undef thread_mutex
#undef reactor
#undef thread_local

namespace {

using verge::duration;
using verge::time_point;
using verge::detail::io::loop_core;
using verge::detail::io::loop_timer;
using verge::detail::io::loop_timers;
using verge::detail::io::operation;
using verge::detail::io::threading;
using verge::detail::io::wait_operation;

constexpr std::size_t no_limit = 1'000'000;

constexpr time_point at(int ns) {
    return time_point(duration(ns));
}

// What was posted: it runs once, and sees what its poster wrote.
struct job : operation {
    job() : operation(&run) {}
    static void run(void* owner, operation* base) {
        if (owner == nullptr) return;
        job& self = *static_cast<job*>(base);
        RL_ASSERT(self.is_written());
        ++self.ran;
        if (self.then) self.then();
    }
    void write() {
        const keep_innermost keep;
        written($) = 1;
    }
    bool is_written() {
        const keep_innermost keep;
        return written($) == 1;
    }
    rl::var<int> written;
    int ran = 0;
    void (*then)() = nullptr;
};

// What waits for a timer: it is called once, expired or aborted.
struct wait : wait_operation {
    wait() : wait_operation(&run) {}
    static void run(void* owner, operation* base) {
        wait& self = *static_cast<wait*>(base);
        if (const message* const m = message_in(owner)) {
            if (m->kind == message::aborted) self.is_aborted = true;
            return;
        }
        if (owner == nullptr) return;
        ++self.ended;
        if (self.is_aborted) {
            ++self.aborted;
        } else {
            RL_ASSERT(loop_reactor::now >= self.expiry);  // never early
        }
    }
    time_point expiry{};
    bool is_aborted = false;
    int ended = 0;
    int aborted = 0;
};

class context : public verge::execution_context {
public:
    ~context() { shutdown(); }
};

template <class Suite, int Threads>
struct loop_suite : rl::test_suite<Suite, Threads> {
    std::optional<context> owner;
    loop_core* loop = nullptr;
    static inline loop_core* current = nullptr;
    static inline int left = 0;  // jobs, until the work ends
    void make(threading mode) {
        innermost_place = &verge::detail::io::innermost;
        *innermost_place = nullptr;
        loop_lock::begin();
        held_up = false;
        owner.emplace();
        loop = current = &verge::make_service<loop_core>(*owner, mode);
        loop->work_started();  // the guard
    }
    static void one_less() {
        if (--left == 0) current->work_finished();
    }
    void run() {
        *innermost_place = nullptr;
        loop->run(no_limit, verge::never);
    }
    // The way to the reactor is long.  A user may come at any time on it, so he waits for a while.
    void user() {
        *innermost_place = nullptr;
        yield_at_most(most_delay);
    }
    static constexpr unsigned most_delay = 40;
    void after() {
        *innermost_place = nullptr;
        RL_ASSERT(loop->stopped());
        owner.reset();
    }
};

// A post while the threads go to sleep, in the reactor or parked: each job runs once, and when the
// last ends the work, all threads return.
template <int Runners, int Posters, bool WithReactor, threading Mode = threading::safe>
struct posts_wake_runners
    : loop_suite<posts_wake_runners<Runners, Posters, WithReactor, Mode>, Runners + Posters> {
    std::optional<job> jobs[Posters];
    void before() {
        this->make(Mode);
        if (WithReactor) static_cast<void>(this->loop->use_reactor());
        this->left = Posters;
        for (auto& j : jobs) {
            j.emplace();
            j->written($) = 0;
            j->then = &this->one_less;
        }
    }
    void thread(unsigned index) {
        if (index < Runners) return this->run();
        this->user();
        job& own = *jobs[index - Runners];
        own.write();
        this->loop->post(&own, false);
    }
    void after() {
        for (auto& j : jobs)
            RL_ASSERT(j->ran == 1);
        loop_suite<posts_wake_runners, Runners + Posters>::after();
    }
};

// A post from outside, and then the end of the work, by the same thread: the job runs before that.
struct a_post_before_the_end : loop_suite<a_post_before_the_end, 2> {
    std::optional<job> last;
    void before() {
        make(threading::single);
        static_cast<void>(loop->use_reactor());
        last.emplace();
        last->written($) = 0;
    }
    void thread(unsigned index) {
        if (index == 0) return run();
        user();
        last->write();
        loop->post(&*last, false);
        loop->work_finished();
    }
    void after() {
        RL_ASSERT(last->ran == 1);
        loop_suite::after();
    }
};

// More jobs than run before the reactor is looked at, and the end of the work meanwhile: all run.
struct many_posts_before_the_end : loop_suite<many_posts_before_the_end, 2> {
    static constexpr int count = 66;
    std::optional<job> jobs[count];
    void before() {
        make(threading::single);
        static_cast<void>(loop->use_reactor());
        for (auto& j : jobs) {
            j.emplace();
            j->write();
            loop->post(&*j, false);
        }
    }
    void thread(unsigned index) {
        if (index == 0) return run();
        yield_at_most(4 * count);
        user();
        loop->work_finished();
    }
    void after() {
        for (auto& j : jobs)
            RL_ASSERT(j->ran == 1);
        loop_suite::after();
    }
};

// Two threads run what is for one, and one of them leaves after a job: the other is woken by those
// that come then.
struct a_runner_leaves : loop_suite<a_runner_leaves, 4> {
    std::optional<job> jobs[2];
    void before() {
        make(threading::single);
        static_cast<void>(loop->use_reactor());
        left = 2;
        for (auto& j : jobs) {
            j.emplace();
            j->written($) = 0;
            j->then = &one_less;
        }
    }
    void thread(unsigned index) {
        if (index == 0) return run();
        if (index == 1) {
            *innermost_place = nullptr;
            loop->run(1, verge::never);
            return;
        }
        user();
        job& own = *jobs[index - 2];
        own.write();
        loop->post(&own, false);
    }
    void after() {
        RL_ASSERT(jobs[0]->ran == 1 && jobs[1]->ran == 1);
        loop_suite::after();
    }
};

// The work ends, or stop() comes, from outside: nobody sleeps on.
template <bool ByStop>
struct the_end_wakes_all : loop_suite<the_end_wakes_all<ByStop>, 3> {
    void before() {
        this->make(threading::safe);
        static_cast<void>(this->loop->use_reactor());
    }
    void thread(unsigned index) {
        if (index < 2) return this->run();
        this->user();
        if (ByStop) {
            this->loop->stop();
        } else {
            this->loop->work_finished();
        }
    }
};

// The context is destroyed as soon as run() has returned, while who posted the last job, ended the
// last work, or stopped it, is still on the way out: nobody touches what is destroyed.  With a
// timer the loop may wake by itself, and find the job before it is woken for it.
enum class last_call { post, work_finished, stop };
enum class beside { nothing, reactor, timer };
template <last_call Call, int Callers, beside Beside, threading Mode>
struct destroyed_before_a_call_returns
    : loop_suite<destroyed_before_a_call_returns<Call, Callers, Beside, Mode>, 1 + Callers> {
    std::optional<job> jobs[Callers];
    std::optional<loop_timer> timer;
    std::optional<wait> expired;
    void before() {
        this->make(Mode);
        held_up = true;
        if (Beside == beside::reactor) static_cast<void>(this->loop->use_reactor());
        if (Beside == beside::timer) {
            timer.emplace();
            expired.emplace();
            loop_timers& service = loop_timers::of(*this->loop);
            service.expires_at(*timer, at(10), {});
            service.wait(*timer, &*expired, false);
        }
        if (Call == last_call::work_finished) {
            for (int i = 1; i < Callers; ++i)
                this->loop->work_started();
        }
        this->left = Callers;
        for (auto& j : jobs) {
            j.emplace();
            j->written($) = 0;
            j->then = &this->one_less;
        }
    }
    void thread(unsigned index) {
        if (index == 0) {
            this->run();
            RL_ASSERT(this->loop->stopped());
            if (Beside == beside::timer) this->loop->timers()->destroy(*timer);
            this->owner.reset();
            return;
        }
        this->user();
        if (Call == last_call::post) {
            job& own = *jobs[index - 1];
            own.write();
            this->loop->post(&own, false);
        } else if (Call == last_call::work_finished) {
            this->loop->work_finished();
        } else {
            this->loop->stop();
        }
    }
    void after() {
        for (auto& j : jobs)
            RL_ASSERT(j->ran == (Call == last_call::post ? 1 : 0));
    }
};

template <last_call Call, int Callers, threading Mode>
bool explore_the_end() {
    return explore<destroyed_before_a_call_returns<Call, Callers, beside::nothing, Mode>>(
               random_ones, 10'000) &&
           explore<destroyed_before_a_call_returns<Call, Callers, beside::reactor, Mode>>(
               random_ones, 10'000) &&
           explore<destroyed_before_a_call_returns<Call, Callers, beside::timer, Mode>>(random_ones,
                                                                                        10'000);
}

// A reactor that is made while the threads sleep parked: one of them leads it, and who finds it, or
// the service of timers, finds it complete.
struct reactor_comes_late : loop_suite<reactor_comes_late, 3> {
    std::optional<loop_timer> timers[2];
    std::optional<wait> waits[2];
    void before() {
        make(threading::safe);
        for (int i = 0; i < 2; ++i) {
            timers[i].emplace();
            waits[i].emplace();
        }
    }
    void thread(unsigned index) {
        if (index == 2) {
            run();
            return;
        }
        user();
        loop_timers& service = loop_timers::of(*loop);
        service.expires_at(*timers[index], at(10), {});
        service.wait(*timers[index], &*waits[index], false);
        if (index == 0) loop->work_finished();
    }
    void after() {
        loop->restart();
        loop->run(no_limit, verge::never);  // a wait that came after the end
        for (int i = 0; i < 2; ++i) {
            RL_ASSERT(waits[i]->ended == 1 && waits[i]->aborted == 0);
            loop->timers()->destroy(*timers[i]);
        }
        loop_suite::after();
    }
};

template <class Suite, int Threads, threading Mode = threading::safe>
struct timer_suite : loop_suite<Suite, Threads> {
    loop_timers* service = nullptr;
    std::optional<loop_timer> timer;
    void before() {
        this->make(Mode);
        service = &loop_timers::of(*this->loop);
        timer.emplace();
    }
    void after() {
        if (timer) service->destroy(*timer);
        loop_suite<Suite, Threads>::after();
    }
};

// A timer that is armed, or set to earlier, while the leader goes to sleep: it wakes.
struct an_earlier_timer_wakes : timer_suite<an_earlier_timer_wakes, 3> {
    std::optional<loop_timer> far;
    std::optional<wait> far_wait, near_wait;
    void before() {
        timer_suite::before();
        far.emplace();
        far_wait.emplace();
        near_wait.emplace();
        service->expires_at(*far, verge::never, {});
        service->wait(*far, &*far_wait, false);
    }
    void thread(unsigned index) {
        if (index < 2) return run();
        user();
        service->expires_at(*timer, at(10), {});
        service->wait(*timer, &*near_wait, false);
        loop->work_finished();
        while (near_wait->ended == 0)
            yield();
        RL_ASSERT(service->cancel(*far) == 1);
    }
    void after() {
        RL_ASSERT(near_wait->ended == 1 && near_wait->aborted == 0);
        RL_ASSERT(far_wait->ended == 1 && far_wait->aborted == 1);
        service->destroy(*far);
        timer_suite::after();
    }
};

// A wait that begins outside before the last other one is cancelled keeps the loop running.
struct a_wait_follows_a_wait : timer_suite<a_wait_follows_a_wait, 2, threading::single> {
    std::optional<loop_timer> far;
    std::optional<wait> far_wait, next_wait;
    void before() {
        timer_suite::before();
        far.emplace();
        far_wait.emplace();
        next_wait.emplace();
        service->expires_at(*far, verge::never, {});
        service->wait(*far, &*far_wait, false);
        loop->work_finished();  // only the waits are left
    }
    void thread(unsigned index) {
        if (index == 0) return run();
        user();
        service->expires_at(*timer, at(10), {});
        service->wait(*timer, &*next_wait, false);
        RL_ASSERT(service->cancel(*far) == 1);
    }
    void after() {
        RL_ASSERT(next_wait->ended == 1 && next_wait->aborted == 0);
        RL_ASSERT(far_wait->ended == 1 && far_wait->aborted == 1);
        service->destroy(*far);
        timer_suite::after();
    }
};

// A handler that waits for a timer: another thread leads the reactor meanwhile.
struct a_taker_leaves_a_leader : timer_suite<a_taker_leaves_a_leader, 3> {
    static inline wait* other = nullptr;
    std::optional<wait> expired;
    std::optional<job> blocks;
    static void block() {
        while (other->ended == 0)
            yield();
        current->work_finished();
    }
    void before() {
        timer_suite::before();
        expired.emplace();
        other = &*expired;
        blocks.emplace();
        blocks->then = &block;
        service->expires_at(*timer, at(10), {});
    }
    void thread(unsigned index) {
        if (index < 2) return run();
        user();
        blocks->write();
        loop->post(&*blocks, false);
        service->wait(*timer, &*expired, false);
    }
    void after() {
        RL_ASSERT(blocks->ran == 1 && expired->ended == 1);
        timer_suite::after();
    }
};

// cancel x fire x re-arm, from three threads: every wait ends once, never early, and exactly those
// are aborted that somebody was told of.  0: the first wait is for ever.
template <int First, int Second, threading Mode = threading::safe>
struct cancel_fire_rearm : timer_suite<cancel_fire_rearm<First, Second, Mode>, 3, Mode> {
    using base = timer_suite<cancel_fire_rearm, 3, Mode>;
    std::optional<wait> first, second;
    std::size_t told = 0;
    void begin(wait& w, time_point expiry) {
        told += this->service->expires_at(*this->timer, expiry, {});
        w.expiry = expiry;
        this->service->wait(*this->timer, &w, false);
    }
    void before() {
        base::before();
        told = 0;
        first.emplace();
        second.emplace();
        begin(*first, First == 0 ? verge::never : at(First));
    }
    void thread(unsigned index) {
        if (index == 0) return this->run();
        this->user();
        if (index == 1) {
            told += this->service->cancel(*this->timer);
        } else {
            begin(*second, at(Second));
            this->loop->work_finished();
        }
    }
    void after() {
        RL_ASSERT(first->ended == 1 && second->ended == 1);
        RL_ASSERT(static_cast<int>(told) == first->aborted + second->aborted);
        base::after();
    }
};

// A new expiry and a wait at the same moment, from two threads: the wait came first and is ended,
// or it is for the new expiry.  The old one never comes.
template <threading Mode = threading::safe>
struct a_new_expiry_meets_a_wait : timer_suite<a_new_expiry_meets_a_wait<Mode>, 3, Mode> {
    using base = timer_suite<a_new_expiry_meets_a_wait, 3, Mode>;
    std::optional<wait> only;
    std::size_t told = 0;
    time_point seen{};
    void before() {
        base::before();
        told = 0;
        only.emplace();
        only->expiry = at(10);
        this->service->expires_at(*this->timer, verge::last_time, {});
    }
    void thread(unsigned index) {
        if (index == 0) return this->run();
        this->user();
        if (index == 1) {
            told = this->service->expires_at(*this->timer, at(10), {});
        } else {
            this->service->wait(*this->timer, &*only, false);
            seen = this->service->expiry(*this->timer);
            this->loop->work_finished();
        }
    }
    void after() {
        RL_ASSERT(only->ended == 1 && static_cast<int>(told) == only->aborted);
        // Who sees the old expiry after the wait began sees that wait ended by the new one.
        RL_ASSERT(seen == at(10) || told == 1);
        base::after();
    }
};

// A timer is destroyed, or moved, while it fires: nobody uses it afterwards, and its wait ends
// once.
template <bool Moved>
struct destroyed_while_it_fires : timer_suite<destroyed_while_it_fires<Moved>, 2> {
    std::optional<loop_timer> next;
    std::optional<wait> first;
    void before() {
        timer_suite<destroyed_while_it_fires, 2>::before();
        first.emplace();
        next.reset();
        this->service->expires_at(*this->timer, at(10), {});
        this->service->wait(*this->timer, &*first, false);
    }
    void thread(unsigned index) {
        if (index == 0) return this->run();
        this->user();
        if (Moved) {
            next.emplace();
            this->service->move(*this->timer, *next);
        }
        this->service->destroy(*this->timer);
        this->timer.reset();
        this->loop->work_finished();
    }
    void after() {
        RL_ASSERT(first->ended == 1);
        if (Moved) {
            RL_ASSERT(first->aborted == 0);
            this->service->destroy(*next);
            next.reset();
        }
        timer_suite<destroyed_while_it_fires, 2>::after();
    }
};

}  // namespace

int main() {
    // Relacy owns the heap inside an exploration and takes it back after each: the registry's
    // table, which stays, must be made before.
    const auto warm = verge::detail::slot_numbers.take();
    verge::detail::slot_numbers.give_back(warm.number, warm.generation);

    const bool ok =
        explore<posts_wake_runners<1, 1, true>>(random_ones, 10'000) &&
        explore<posts_wake_runners<1, 2, true>>(random_ones, 10'000) &&
        explore<posts_wake_runners<2, 2, true>>(random_ones, 10'000) &&
        explore<posts_wake_runners<2, 2, false>>(random_ones, 10'000) &&
        explore<posts_wake_runners<1, 2, true, threading::single>>(random_ones, 10'000) &&
        explore<a_post_before_the_end>(random_ones, 10'000) &&
        explore<many_posts_before_the_end>(random_ones, 10'000) &&
        explore<a_runner_leaves>(random_ones, 10'000) &&
        explore<a_wait_follows_a_wait>(random_ones, 10'000) &&
        explore<the_end_wakes_all<false>>(random_ones, 10'000) &&
        explore<the_end_wakes_all<true>>(random_ones, 10'000) &&
        explore_the_end<last_call::post, 1, threading::safe>() &&
        explore_the_end<last_call::post, 1, threading::single>() &&
        explore_the_end<last_call::post, 2, threading::safe>() &&
        explore_the_end<last_call::post, 2, threading::single>() &&
        explore_the_end<last_call::work_finished, 1, threading::safe>() &&
        explore_the_end<last_call::work_finished, 1, threading::single>() &&
        explore_the_end<last_call::work_finished, 2, threading::safe>() &&
        explore_the_end<last_call::stop, 1, threading::safe>() &&
        explore_the_end<last_call::stop, 1, threading::single>() &&
        explore<reactor_comes_late>(random_ones, 10'000) &&
        explore<an_earlier_timer_wakes>(random_ones, 10'000) &&
        explore<a_taker_leaves_a_leader>(random_ones, 10'000) &&
        explore<cancel_fire_rearm<10, 5>>(random_ones, 10'000) &&
        explore<cancel_fire_rearm<10, 20>>(random_ones, 10'000) &&
        explore<cancel_fire_rearm<0, 20>>(random_ones, 10'000) &&
        explore<cancel_fire_rearm<10, 5, threading::single>>(random_ones, 10'000) &&
        explore<cancel_fire_rearm<0, 20, threading::single>>(random_ones, 10'000) &&
        explore<a_new_expiry_meets_a_wait<>>(random_ones, 10'000) &&
        explore<a_new_expiry_meets_a_wait<threading::single>>(random_ones, 10'000) &&
        explore<destroyed_while_it_fires<false>>(random_ones, 10'000) &&
        explore<destroyed_while_it_fires<true>>(random_ones, 10'000);
    return ok ? 0 : 1;
}
