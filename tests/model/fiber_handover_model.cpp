// mutates: include/verge/fibers/execution_queue.hpp src/fibers/blocking.cpp src/fibers/wait_fd.cpp
//
// Explores the interleavings of fibers that hand something to others and wait for its end: values
// to a queue's consumer, a call to a helper thread, a descriptor to the reactor.  Exits with 1 and
// prints the guilty history if an assertion fails; a wake-up that is lost is a thread that waits
// for ever, which relacy reports as a live-lock.
//
// These are the real source files, compiled here with other names for what they stand on: those of
// sync_waits.hpp, and a scheduler, threads, a condition variable and a reactor of this file.

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include "fibers/worker.hpp"
#include <verge/base/detail/os_thread.hpp>
#include <verge/driver/reactor.hpp>
#include <verge/fibers/blocking.hpp>
#include <verge/fibers/scheduler.hpp>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <system_error>

#include "sync_waits.hpp"
// clang-format on

namespace {

// What is to run on a thread of its own, or in a fiber: some of the suite's threads do that.
// Plain: relacy runs one thread at a time.
struct spare_threads {
    static inline spare_threads* here = nullptr;  // of the suite that runs
    int most = 0;                                 // who comes then is refused
    int begun = 0;
    int ended = 0;
    bool over = false;  // no more will come, and who waits for more gives up
    std::function<void()> next[4];

    bool start(std::function<void()> f) {
        if (begun - ended >= most) return false;
        next[begun++ % 4] = std::move(f);
        return true;
    }
    // A thread of the suite.
    void serve() {
        while (!over || taken_ < begun) {
            if (taken_ == begun) {
                rl::yield(1, $);
                continue;
            }
            std::exchange(next[taken_++ % 4], {})();
            ++ended;
        }
    }

private:
    int taken_ = 0;
};

}  // namespace

namespace verge::fibers::detail {
using verge::detail::sync::model_current;
using verge::detail::sync::model_wait_scope;
using verge::detail::sync::model_waiter;
}  // namespace verge::fibers::detail

namespace verge::detail {

using model_mutex = ::model_lock;

class model_thread {
public:
    model_thread(void* (*main)(void*), void* argument, const os_thread_options&) {
        if (spare_threads::here == nullptr) return;  // before all suites: it is not needed
        if (!spare_threads::here->start([=] { main(argument); })) {
            throw std::system_error(
                std::make_error_code(std::errc::resource_unavailable_try_again));
        }
    }
    void detach() {}
};

// Wakes whom it is to wake, and nobody else.  A time-out comes at once, or when all is over.
class model_condition {
public:
    template <class Lock, class Time, class Condition>
    bool wait_until(Lock& hold, Time, Condition condition) {
        while (!condition()) {
            bool woken = false;
            bool** const at = std::find(sleepers_, sleepers_ + 4, nullptr);
            *at = &woken;
            const bool gives_up = rl::rand(2) == 0;
            hold.unlock();
            while (!woken && !gives_up && !spare_threads::here->over)
                rl::yield(1, $);
            hold.lock();
            if (woken) continue;
            *at = nullptr;
            return condition();
        }
        return true;
    }
    void notify_one() {
        int left = 4;
        for (int i = rl::rand(4); left > 0; --left, ++i) {
            if (sleepers_[i % 4] == nullptr) continue;
            *std::exchange(sleepers_[i % 4], nullptr) = true;
            return;
        }
    }

private:
    bool* sleepers_[4] = {};
};

}  // namespace verge::detail

namespace verge {

// One event at a time, by the suite's threads.
class model_reactor {
public:
    struct descriptor {
        int fd = 0;
        model_lock lock;
        fd_operation* pending[3] = {};  // under the lock; one of each is enough here
    };
    static inline descriptor* only = nullptr;       // of the suite that runs
    static inline rl::var<int>* touched = nullptr;  // the operations, by each thread

    descriptor* add(int fd) {
        only->fd = fd;
        return only;
    }
    void remove(descriptor* of) {
        for (const fd_operation* each : of->pending)
            RL_ASSERT(each == nullptr);
    }
    void start(descriptor& of, fd_event event, fd_operation& operation) {
        of.lock.lock();
        const bool done = operation.attempt();
        if (!done) of.pending[static_cast<int>(event)] = &operation;
        of.lock.unlock();
        if (done) finish(operation);
    }
    bool cancel(descriptor& of, fd_event event, fd_operation& operation) {
        of.lock.lock();
        fd_operation*& pending = of.pending[static_cast<int>(event)];
        const bool found = pending == &operation;
        if (found) pending = nullptr;
        of.lock.unlock();
        if (found) finish(operation);
        return found;
    }
    void interrupt() {}
    void wait(time_point) {}
    static int fd_of(const descriptor& of) { return of.fd; }

    // The reactor's thread, after the event has come.
    static void handle(fd_event event) {
        only->lock.lock();
        fd_operation*& pending = only->pending[static_cast<int>(event)];
        fd_operation* done = nullptr;
        if (pending != nullptr && pending->attempt()) done = std::exchange(pending, nullptr);
        only->lock.unlock();
        if (done != nullptr) finish(*done);
    }

private:
    static void finish(fd_operation& operation) {
        touched[rl::thread_index()]($) = 1;  // it reads the operation
        operation.finish({}, nullptr);
    }
};

}  // namespace verge

// The kernel's: events that have come.
static short ready_events = 0;
namespace verge::detail::os {
static int model_poll(pollfd* of, int, int) {
    of->revents = static_cast<short>(of->events & ready_events);
    return of->revents != 0 ? 1 : 0;
}
}  // namespace verge::detail::os

namespace verge::fibers {

class model_scheduler {
public:
    void execute(callback fn) {
        auto shared = std::make_shared<callback>(std::move(fn));
        if (!spare_threads::here->start([shared] { (*shared)(); })) throw std::bad_alloc();
    }
    void report(std::exception_ptr) { RL_ASSERT(false); }
};

namespace detail {

struct model_worker {
    struct fiber {
        stack_kind kind = stack_kind::normal;
    };
    static const model_worker* here() {
        static const model_worker one;
        return &one;
    }
    const fiber* current() const {
        static const fiber one;
        return &one;
    }
};

}  // namespace detail

}  // namespace verge::fibers

#define os_thread model_thread
#define poll model_poll
#define reactor model_reactor
#define scheduler model_scheduler
#define thread_condition model_condition
#define thread_mutex model_mutex
#define unordered_map map  // which keeps no memory
#define worker model_worker
// clang-format off
#include <verge/fibers/execution_queue.hpp>
#include "fibers/blocking.cpp"
#include "fibers/wait_fd.cpp"
// clang-format on
#undef atomic
#undef constinit
#undef current
#undef os_thread
#undef waiter
#undef poll
#undef reactor
#undef scheduler
#undef spin_lock
#undef thread_condition
#undef thread_mutex
#undef unordered_map
#undef wait_scope
#undef worker

namespace {

using namespace verge::fibers;

constexpr verge::time_point some_time = verge::time_point::max() - verge::duration(1);

template <class Suite, int Threads>
struct handover_suite : sync_suite<Suite, Threads> {
    spare_threads spare;
    void before() {
        sync_suite<Suite, Threads>::before();
        spare = spare_threads();
        spare_threads::here = &spare;
    }
};

// ---- execution_queue ---------------------------------------------------------------------------

// Two push, one of them destroys the queue: all is consumed then, one at a time, in the order of
// each, and the consumer does not come back to the queue.  Refused: no fiber can be had, the first
// to push consumes.
template <bool Refused>
struct a_queue_is_consumed : handover_suite<a_queue_is_consumed<Refused>, 4> {
    model_scheduler on;
    std::optional<execution_queue<int>> queue;
    rl::atomic<int> pushed;
    rl::var<int> consumed;
    rl::var<int> last;  // of the first thread
    void before() {
        handover_suite<a_queue_is_consumed, 4>::before();
        this->spare.most = Refused ? 1 : 2;
        queue.emplace(on, [this](int value) {
            consumed($) = consumed($) + 1;
            if (value == 0) return;
            RL_ASSERT(value == last($) + 1);
            last($) = value;
        });
        pushed.store(0, rl::mo_relaxed, $);
        consumed($) = 0;
        last($) = 0;
    }
    void thread(unsigned index) {
        if (index >= 2) {
            if (!Refused || index == 2) this->spare.serve();
            return;
        }
        if (index == 1) {
            queue->push(0);
            pushed.store(1, rl::mo_release, $);
            return;
        }
        queue->push(1);
        queue->join();
        RL_ASSERT(last($) == 1);
        queue->push(2);
        while (pushed.load(rl::mo_acquire, $) == 0)
            rl::yield(1, $);
        queue.reset();
        gone_memory::is(queue);
        this->spare.over = true;
        RL_ASSERT(consumed($) == 3 && last($) == 2);
    }
};

// ---- blocking ----------------------------------------------------------------------------------

// Each call is made once, by a helper, and the fiber sees what it wrote; with enough helpers, calls
// may wait for each other.  Helpers that are not needed end at any time.  With one helper at most,
// a call waits for it, or is refused if there is none.
template <int Fibers, int Helpers>
struct calls_are_made : handover_suite<calls_are_made<Fibers, Helpers>, Fibers + Helpers> {
    rl::var<int> result[Fibers];
    int begun[2] = {};  // of each round
    int returned = 0;
    void before() {
        handover_suite<calls_are_made, Fibers + Helpers>::before();
        this->spare.most = Helpers < Fibers ? Helpers : 4;  // one may be about to end
        begun[0] = begun[1] = returned = 0;
        // They are static; a history that failed leaves something behind.
        std::destroy_at(&detail::helpers());
        std::construct_at(&detail::helpers());
        for (auto& each : result)
            each($) = 0;
    }
    void call(unsigned index, int round) {
        ++begun[round];
        while (Helpers >= Fibers && begun[round] < Fibers)
            rl::yield(1, $);
        result[index]($) = result[index]($) + 1;
    }
    void thread(unsigned index) {
        if (index >= Fibers) return this->spare.serve();
        for (int i = 1; i <= 2; ++i) {
            bool made = true;
            try {
                detail::run_blocking([this, index, i] { call(index, i - 1); });
            } catch (const std::bad_alloc&) {
                made = false;
            }
            RL_ASSERT(made || Helpers < Fibers);
            if (!made) result[index]($) = result[index]($) + 1;
            RL_ASSERT(result[index]($) == i);
        }
        if (++returned == Fibers) this->spare.over = true;
    }
    void after() { RL_ASSERT(this->spare.begun == this->spare.ended); }
};

// ---- wait_fd -----------------------------------------------------------------------------------

// Two events come while a fiber waits for either: it is told of one at least, and nobody uses its
// stack when it has returned.  Timed: or its deadline comes.
template <bool Timed>
struct a_descriptor_is_waited_for : handover_suite<a_descriptor_is_waited_for<Timed>, 3> {
    std::optional<verge::model_reactor::descriptor> only;
    rl::var<int> touched[3];
    void before() {
        handover_suite<a_descriptor_is_waited_for, 3>::before();
        verge::model_reactor::only = &only.emplace();
        verge::model_reactor::touched = touched;
        ready_events = 0;
        for (auto& each : touched)
            each($) = 0;
    }
    void thread(unsigned index) {
        using verge::fd_event;
        if (index > 0) {
            ready_events |= index == 1 ? POLLIN : POLLOUT;
            verge::model_reactor::handle(index == 1 ? fd_event::read : fd_event::write);
            return;
        }
        const fd_outcome outcome = detail::wait_for_fd(7, fd_event::read | fd_event::write,
                                                       Timed ? some_time : verge::never);
        RL_ASSERT(Timed || outcome == fd_result::ready);
        RL_ASSERT((outcome == fd_result::ready) != outcome.came.empty());
        for (auto& each : touched)  // its stack is used for something else
            each($) = 2;
    }
};

}  // namespace

int main() {
    static_cast<void>(detail::helpers());  // made once, and not by a suite's thread
    static_cast<void>(detail::fd_poller::shared());
    constexpr int some = 50'000;
    const bool ok = explore<a_queue_is_consumed<false>>(random_ones, some) &&
                    explore<a_queue_is_consumed<true>>(random_ones, some) &&
                    explore<calls_are_made<2, 2>>(random_ones, some) &&
                    explore<calls_are_made<2, 1>>(random_ones, some) &&
                    explore<a_descriptor_is_waited_for<false>>(random_ones, some) &&
                    explore<a_descriptor_is_waited_for<true>>(random_ones, some);
    return ok ? 0 : 1;
}
