// mutates: include/verge/fibers/detail/run_queue.hpp
//
// Explores the interleavings of an owner that pushes, pops, spills over and refills, and of thieves
// that steal from it and from each other.  Exits with 1 and prints the guilty history if an
// assertion fails.  The lock is relacy's; the ring has 2 or 4 places.

#include "queue_platform.hpp"
#include <verge/fibers/detail/run_queue.hpp>

namespace {

struct task {
    task* next = nullptr;
    rl::var<int> payload;  // relacy reports who reads it without having synchronized with the push
    int taken = 0;
};

template <std::size_t Capacity>
using queue_of = verge::fibers::detail::run_queue<task, queue_model_platform, Capacity>;
using list = verge::fibers::detail::task_list<task>;

template <class Suite, int Threads, int Tasks>
struct queue_suite : rl::test_suite<Suite, Threads> {
    read_log logs[most_threads];
    task tasks[Tasks];
    task* last = nullptr;  // the last that the owner took
    queue_suite() { read_log::logs = logs; }

    task* fresh(int i) {
        tasks[i].payload($) = 1;
        return &tasks[i];
    }
    // Each is taken once, by somebody who sees what its pusher wrote.
    task* take(task* t) {
        if (t == nullptr) return nullptr;
        RL_ASSERT(++t->taken == 1);
        RL_ASSERT(t->payload($) == 1);
        t->payload($) = 2;
        return t;
    }
    // The owner takes in the order of its pushes, whatever thieves take meanwhile.
    template <class Queue>
    task* pop(Queue& queue) {
        task* const t = take(queue.pop());
        RL_ASSERT(t == nullptr || last == nullptr || t > last);
        if (t != nullptr) last = t;
        return t;
    }
    template <class Queue>
    void drain(Queue& queue) {
        while (take(queue.pop()) != nullptr) {
        }
    }
    // After all is done the owner finds what is left, and nothing was lost.
    template <class... Queue>
    void drain_all(Queue&... queues) {
        (drain(queues), ...);
        for (const task& t : tasks)
            RL_ASSERT(t.taken == 1);
    }
};

// An owner whose ring of `Capacity` comes round and spills over, and thieves that steal, then run
// what they have.  A thief's queue can be stolen from, too.
template <std::size_t Capacity, int Thieves, int Tasks>
struct each_task_once : queue_suite<each_task_once<Capacity, Thieves, Tasks>, Thieves + 1, Tasks> {
    queue_of<Capacity> queues[Thieves + 1] = {queue_of<Capacity>(true), queue_of<Capacity>(true),
                                              queue_of<Capacity>(true)};
    void thread(unsigned index) {
        auto& own = queues[index];
        if (index == 0) {
            int i = 0;
            for (; i < Tasks / 2; ++i)
                own.push(this->fresh(i), i % 2 == 0);
            this->pop(own);
            list more;
            for (; i < Tasks - 1; ++i)
                more.push(this->fresh(i));
            own.push_all(more);
            this->pop(own);
            own.push(this->fresh(Tasks - 1));
            while (this->pop(own) != nullptr) {
            }
        } else {
            for (int round = 0; round < 2; ++round) {
                if (this->take(own.pop()) != nullptr) continue;
                for (unsigned i = 1; i <= Thieves; ++i) {
                    if (this->take(queues[(index + i) % (Thieves + 1)].steal_for(own))) break;
                }
            }
        }
    }
    void after() {
        for (auto& queue : queues)
            this->drain(queue);
        this->drain_all();
    }
};
template <std::size_t Capacity, int Tasks>
struct each_task_once<Capacity, 1, Tasks>
    : queue_suite<each_task_once<Capacity, 1, Tasks>, 2, Tasks> {
    queue_of<Capacity> queue{true}, thief{true};
    void thread(unsigned index) {
        if (index == 0) {
            for (int i = 0; i < Tasks; ++i) {
                queue.push(this->fresh(i));
                if (i % 3 == 1) this->pop(queue);
            }
            this->pop(queue);
        } else {
            for (int round = 0; round < 2; ++round) {
                this->take(queue.steal_for(thief));
                this->drain(thief);
            }
        }
    }
    void after() { this->drain_all(queue, thief); }
};

// A thief that had tasks, which others stole, steals again: it writes places that others have read.
struct a_thief_is_robbed : queue_suite<a_thief_is_robbed, 3, 10> {
    queue_of<4> victim{true}, thief{true}, other{true};
    void before() {
        for (int i = 0; i < 8; ++i)
            (i < 4 ? victim : thief).push(fresh(i));
    }
    void thread(unsigned index) {
        if (index == 0) {
            for (int round = 0; round < 3; ++round) {
                drain(thief);
                take(victim.steal_for(thief));
            }
        } else if (index == 1) {
            for (int round = 0; round < 2; ++round) {
                take(thief.steal_for(other));
                drain(other);
            }
        } else {
            pop(victim);
            victim.push(fresh(8));
            victim.push(fresh(9));
        }
    }
    void after() { drain_all(victim, thief, other); }
};

// Thieves without a queue of their own, which take one after the other.
template <std::size_t Capacity, int Thieves, int Tasks>
struct taken_one_by_one
    : queue_suite<taken_one_by_one<Capacity, Thieves, Tasks>, Thieves + 1, Tasks> {
    queue_of<Capacity> queue{true};
    void thread(unsigned index) {
        if (index == 0) {
            for (int i = 0; i < Tasks; ++i) {
                queue.push(this->fresh(i));
                if (i % 3 == 1) this->pop(queue);
            }
            this->pop(queue);
        } else {
            for (int round = 0; round < 3; ++round)
                this->take(queue.steal_one());
        }
    }
    void after() { this->drain_all(queue); }
};

// One task more than the owner takes: it is found, also while the owner moves it from the list to
// the ring.
template <bool Steal>
struct nothing_is_out_of_sight : queue_suite<nothing_is_out_of_sight<Steal>, 2, 6> {
    queue_of<4> queue{true}, thief{true};
    bool over = false;
    void before() {
        for (int i = 0; i < 6; ++i)
            queue.push(this->fresh(i));
    }
    void thread(unsigned index) {
        if (index == 0) {
            for (int i = 0; i < 5; ++i)
                this->pop(queue);
            over = true;
        } else if (Steal) {
            RL_ASSERT(this->take(queue.steal_for(thief)) != nullptr);
        } else {
            do
                RL_ASSERT(!queue.empty());
            while (!over);
        }
    }
    void after() { this->drain_all(queue, thief); }
};

// Where there is no thief: first in, first out, through ring, list and refill.
template <bool Shared>
struct first_in_first_out : queue_suite<first_in_first_out<Shared>, 1, 12> {
    queue_of<4> queue{Shared};
    void thread(unsigned) {
        int pushed = 0;
        int popped = 0;
        while (popped < 12) {
            list more;
            switch (pushed < 12 ? rl::rand(3) : 2) {
                case 0:
                    queue.push(this->fresh(pushed++));
                    break;
                case 1:
                    for (unsigned n = rl::rand(7); n > 0 && pushed < 12; --n)
                        more.push(this->fresh(pushed++));
                    queue.push_all(more);
                    break;
                default:
                    RL_ASSERT(queue.empty() == (pushed == popped));
                    task* const t = this->take(queue.pop());
                    RL_ASSERT(t == (pushed == popped ? nullptr : &this->tasks[popped]));
                    if (t != nullptr) ++popped;
            }
        }
    }
};

}  // namespace

int main() {
    const bool ok = explore<each_task_once<2, 1, 6>>(random_ones, 50'000) &&
                    explore<each_task_once<4, 1, 8>>(random_ones, 50'000) &&
                    explore<each_task_once<2, 2, 6>>(random_ones, 50'000) &&
                    explore<each_task_once<4, 2, 8>>(random_ones, 50'000) &&
                    explore<a_thief_is_robbed>(random_ones, 50'000) &&
                    explore<taken_one_by_one<2, 1, 6>>(random_ones, 50'000) &&
                    explore<taken_one_by_one<2, 2, 6>>(random_ones, 50'000) &&
                    explore<nothing_is_out_of_sight<false>>(random_ones, 50'000) &&
                    explore<nothing_is_out_of_sight<true>>(random_ones, 50'000) &&
                    explore<first_in_first_out<true>>(random_ones, 5'000) &&
                    explore<first_in_first_out<false>>(random_ones, 5'000);
    return ok ? 0 : 1;
}
