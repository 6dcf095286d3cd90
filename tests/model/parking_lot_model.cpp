// mutates: include/verge/fibers/detail/parking_lot.hpp include/verge/fibers/detail/remote_queue.hpp
// mutates: include/verge/fibers/detail/run_queue.hpp
//
// Explores the interleavings of workers that go idle and of threads and fibers that make work, on
// the lot, the remote queue and the run queues together.  Exits with 1 and prints the guilty
// history if an assertion fails.
//
// The workers' loop is the scheduler's.  A futex wakes those who sleep in it, one that relacy
// picks, and orders nothing.  When nobody can go on, all work must be done: else a wake-up was
// lost.  A task may be stuck until another has run, so "done" also means that a second worker came
// for it.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/base/clock.hpp>
#include <verge/base/parker.hpp>

#include "queue_platform.hpp"

#include <verge/fibers/detail/parking_lot.hpp>
#include <verge/fibers/detail/remote_queue.hpp>
#include <verge/fibers/detail/run_queue.hpp>
// clang-format on

namespace {

using verge::time_point;

struct task {
    task* next = nullptr;
    rl::var<int> payload;
    bool ran = false;
    const task* needs = nullptr;  // is stuck until that one has run
    int makes = 0;                // pushes so many, those that stand after it, when it runs
};

// The kernel, and who can go on.  Plain: relacy runs one thread at a time.
struct world {
    static inline world* here = nullptr;
    unsigned threads = 0;
    bool asleep[most_threads] = {};
    bool ended[most_threads] = {};
    const task* stuck_on[most_threads] = {};
    unsigned undone = 0;  // tasks
    unsigned wakes = 0;
    bool over = false;    // nobody can go on, and all is done: the workers may end
    bool closed = false;  // somebody ends the scheduler

    bool blocked(unsigned t) const {
        return ended[t] || asleep[t] || (stuck_on[t] != nullptr && !stuck_on[t]->ran);
    }
    // By a thread that cannot go on.
    void idle() {
        bool all = true;
        for (unsigned t = 0; t < threads; ++t)
            all = all && blocked(t);
        if (all && !over) {
            RL_ASSERT(undone == 0);  // else: a wake-up was lost
            over = true;
        }
        rl::yield(1, $);
    }
};

struct lot_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    static void wait(rl::atomic<std::uint32_t>& word, std::uint32_t expected, time_point) {
        // The kernel compares the newest value, and goes to sleep in the same step.
        if (word.fetch_add(0, rl::mo_relaxed, $) != expected) return;
        world& w = *world::here;
        const unsigned me = rl::thread_index();
        w.asleep[me] = true;
        while (w.asleep[me] && !w.over)
            w.idle();
        w.asleep[me] = false;
    }
    static void wake_one(rl::atomic<std::uint32_t>&) {
        world& w = *world::here;
        ++w.wakes;
        unsigned sleepers = 0;
        for (unsigned t = 0; t < w.threads; ++t)
            sleepers += w.asleep[t] ? 1 : 0;
        if (sleepers == 0) return;
        unsigned pick = sleepers == 1 ? 0 : rl::rand(sleepers);
        for (unsigned t = 0; t < w.threads; ++t)
            if (w.asleep[t] && pick-- == 0) w.asleep[t] = false;
    }
    static void wake_all(rl::atomic<std::uint32_t>&) {
        for (bool& a : world::here->asleep)
            a = false;
    }
    static time_point now() { return time_point(verge::duration(world::here->over ? 2 : 0)); }
};
constexpr time_point when_over{verge::duration(1)};

using lot_type = verge::fibers::detail::basic_parking_lot<lot_platform>;
using queue_type = verge::fibers::detail::run_queue<task, queue_model_platform, 2>;
using remote_type = verge::fibers::detail::remote_queue<task, queue_model_platform>;
using list = verge::fibers::detail::task_list<task>;

struct queue_holder {
    queue_type queue{true};
};

template <class Suite, int Workers, int Others, int Tasks>
struct lot_suite : rl::test_suite<Suite, Workers + Others> {
    read_log logs[most_threads];
    world all;
    lot_type lot;
    remote_type remote;
    queue_holder workers[Workers];
    task tasks[Tasks];
    unsigned clears = 0;

    lot_suite() {
        read_log::logs = logs;
        world::here = &all;
        all.threads = Workers + Others;
        all.undone = Tasks;
    }
    void before() {}

    // ---- whoever makes work ----
    task* fresh(task& t) {
        t.payload($) = 1;
        return &t;
    }
    void send(task& t) {
        remote.push(fresh(t));
        lot.notify();
        remote.leave();
    }

    // A sender that is in no hurry: until every worker sleeps, or cannot go on.
    void wait_until_quiet() {
        for (unsigned t = 0; t < Workers; ++t)
            while (!all.blocked(t))
                rl::yield(1, $);
    }

    // ---- a worker, as the scheduler has it ----
    void run(task* t, unsigned me) {
        RL_ASSERT(!t->ran);
        RL_ASSERT(t->payload($) == 1);
        for (int i = 1; i <= t->makes; ++i) {
            workers[me].queue.push(fresh(t[i]), true);
            lot.notify();
        }
        t->ran = true;
        --all.undone;
        if (t->needs == nullptr) return;
        all.stuck_on[me] = t->needs;
        while (!t->needs->ran)
            all.idle();
        all.stuck_on[me] = nullptr;
    }
    task* take_remote(unsigned me) {
        list taken;
        remote.take_all(taken);
        task* const first = taken.pop();
        if (!taken.empty()) workers[me].queue.push_all(taken);
        return first;
    }
    task* search_all_queues(unsigned me) {
        if (task* const t = workers[me].queue.pop()) return t;
        if (task* const t = take_remote(me)) return t;
        for (unsigned i = 1; i < Workers; ++i) {
            queue_type& victim = workers[(me + i) % Workers].queue;
            if (task* const t = victim.steal_for(workers[me].queue)) return t;
        }
        return nullptr;
    }
    bool any_work() {
        if (!remote.empty()) return true;
        for (auto& w : workers)
            if (!w.queue.empty()) return true;
        return false;
    }
    void stop_searching_and_look() {
        lot.stop_searching();
        if (any_work()) lot.notify();
    }
    // nullptr: it is over.
    task* find_work(unsigned me) {
        lot.start_searching();
        task* t = search_all_queues(me);
        while (t == nullptr) {
            lot.stop_searching();
            const std::uint32_t seen = lot.prepare();
            ++clears;
            t = search_all_queues(me);
            bool in_time = true;
            if (t == nullptr) in_time = lot.wait(seen, when_over);
            lot.leave();
            ++clears;
            if (t == nullptr && in_time) t = search_all_queues(me);
            if (!in_time) {
                lot.stop_searching();
                return nullptr;
            }
        }
        stop_searching_and_look();
        return t;
    }
    void work(unsigned me) {
        while (task* t = find_work(me)) {
            do
                run(t, me);
            while ((t = workers[me].queue.pop()) != nullptr);
        }
    }
    void end_of(unsigned index) { all.ended[index] = true; }

    // One call, one wake-up: between two there was a worker that prepared or left.
    void after() {
        RL_ASSERT(all.wakes <= clears + 1);
        RL_ASSERT(lot.waiters() == 0);
        RL_ASSERT(!remote.in_use());
    }
};

// Whoever publishes in one of the ways there are, and whoever then looks in one of the ways there
// are: the look finds the task, or the notification finds the waiter.
enum class way { ring, together, later, remote };
template <way Way, bool BySteal>
struct one_sees_the_other : lot_suite<one_sees_the_other<Way, BySteal>, 2, 0, 1> {
    bool found = false;
    bool woke = false;
    void thread(unsigned index) {
        auto& [first, second] = this->workers;
        task& t = this->tasks[0];
        list some;
        if (index == 0) {
            switch (Way) {
                case way::ring:
                    first.queue.push(this->fresh(t), true);
                    break;
                case way::together:
                    some.push(this->fresh(t));
                    first.queue.push_all(some);
                    break;
                case way::later:
                    first.queue.push(this->fresh(t));
                    first.queue.announce();
                    break;
                case way::remote:
                    this->remote.push(this->fresh(t));
                    break;
            }
            woke = this->lot.notify();
        } else if (index == 1) {
            static_cast<void>(this->lot.prepare());
            if (Way == way::remote)
                found = !this->remote.empty();
            else if (BySteal)
                found = first.queue.steal_for(second.queue) != nullptr;
            else
                found = !first.queue.empty();
        }
    }
    void after() { RL_ASSERT(found || woke); }
};

// Workers go idle, again and again, while threads send: one task after another, or the last one
// when the workers have gone to sleep, which would not wake up if the lot took them for awake.
template <int Workers, int Senders, int Each>
struct no_wake_up_is_lost
    : lot_suite<no_wake_up_is_lost<Workers, Senders, Each>, Workers, Senders, Senders * Each> {
    void thread(unsigned index) {
        if (index < Workers) {
            this->work(index);
        } else {
            for (int i = 0; i < Each; ++i) {
                if (i > 0 && i == Each - 1) this->wait_until_quiet();
                this->send(this->tasks[(index - Workers) * Each + i]);
            }
        }
        this->end_of(index);
    }
};

// Two tasks are sent, by one or by two; whichever is run first is stuck until the other has run: a
// second worker must come, whether the first took both or one.
template <int Senders>
struct work_goes_round : lot_suite<work_goes_round<Senders>, 2, Senders, 2> {
    void before() {
        this->tasks[0].needs = &this->tasks[1];
        this->tasks[1].needs = &this->tasks[0];
    }
    void thread(unsigned index) {
        if (index < 2) {
            this->work(index);
        } else if (Senders == 2) {
            this->send(this->tasks[index - 2]);
        } else {
            this->send(this->tasks[0]);
            this->send(this->tasks[1]);
        }
        this->end_of(index);
    }
};

// A fiber makes more than its worker's ring holds, and is then stuck on the last of them: others
// must take them from the ring, from the list, and from each other.
template <int Workers, int Made>
struct a_burst_wakes_one_by_one
    : lot_suite<a_burst_wakes_one_by_one<Workers, Made>, Workers, 1, Made + 1> {
    void before() {
        this->tasks[0].makes = Made;
        this->tasks[0].needs = &this->tasks[Made];
        if (Workers > 2) this->tasks[1].needs = &this->tasks[Made];
    }
    void thread(unsigned index) {
        if (index < Workers)
            this->work(index);
        else
            this->send(this->tasks[0]);
        this->end_of(index);
    }
};

// The end: a worker that is about to sleep sees the word that was set before notify_all().
struct the_end_wakes_all : lot_suite<the_end_wakes_all, 2, 1, 0 + 1> {
    rl::var<int> closing_message;
    rl::atomic<int> closing;
    void before() {
        all.undone = 0;
        closing.store(0, rl::mo_relaxed, $);
        closing_message($) = 0;
    }
    void thread(unsigned index) {
        if (index == 2) {
            closing.store(1, std::memory_order_relaxed);
            closing_message($) = 1;
            lot.notify_all();
        } else {
            const std::uint32_t seen = lot.prepare();
            if (closing.load(std::memory_order_relaxed) == 0) {
                RL_ASSERT(lot.wait(seen, when_over));
                RL_ASSERT(closing_message($) == 1);
            }
            lot.leave();
            lot.stop_searching();
        }
        end_of(index);
    }
    void after() {}
};

// Who destroys the queue has got the last task, and then waits for those who are still inside.
struct the_queue_outlives_its_pushers : lot_suite<the_queue_outlives_its_pushers, 1, 2, 2> {
    rl::var<int> lifetime[2];  // what a pusher may still touch
    void before() { lifetime[0]($) = 0, lifetime[1]($) = 0; }
    void thread(unsigned index) {
        if (index == 0) {
            list taken;
            while (taken.size() < 2) {
                remote.take_all(taken);
                rl::yield(1, $);
            }
            RL_ASSERT(remote.pushed() == 2);
            while (remote.in_use())
                rl::yield(1, $);
            RL_ASSERT(lifetime[0]($) == 1 && lifetime[1]($) == 1);
            lifetime[0]($) = lifetime[1]($) = -1;
        } else {
            remote.push(fresh(tasks[index - 1]));
            lifetime[index - 1]($) = 1;
            remote.leave();
        }
    }
    void after() {}
};

}  // namespace

int main() {
    const bool ok = explore<one_sees_the_other<way::ring, false>>(random_ones, 5'000) &&
                    explore<one_sees_the_other<way::ring, true>>(random_ones, 5'000) &&
                    explore<one_sees_the_other<way::together, true>>(random_ones, 5'000) &&
                    explore<one_sees_the_other<way::later, false>>(random_ones, 5'000) &&
                    explore<one_sees_the_other<way::remote, false>>(random_ones, 5'000) &&
                    explore<no_wake_up_is_lost<1, 1, 2>>(random_ones, 10'000) &&
                    explore<no_wake_up_is_lost<1, 2, 1>>(random_ones, 10'000) &&
                    explore<no_wake_up_is_lost<1, 2, 2>>(random_ones, 10'000) &&
                    explore<no_wake_up_is_lost<2, 1, 3>>(random_ones, 10'000) &&
                    explore<no_wake_up_is_lost<2, 2, 1>>(random_ones, 10'000) &&
                    explore<no_wake_up_is_lost<2, 2, 2>>(random_ones, 10'000) &&
                    explore<work_goes_round<1>>(random_ones, 10'000) &&
                    explore<work_goes_round<2>>(random_ones, 10'000) &&
                    explore<a_burst_wakes_one_by_one<2, 4>>(random_ones, 10'000) &&
                    explore<a_burst_wakes_one_by_one<3, 4>>(random_ones, 10'000) &&
                    explore<the_end_wakes_all>(random_ones, 10'000) &&
                    explore<the_queue_outlives_its_pushers>(random_ones, 10'000);
    return ok ? 0 : 1;
}
