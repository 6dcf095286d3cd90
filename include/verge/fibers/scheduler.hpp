// verge/fibers/scheduler.hpp -- runs fibers on a few threads: M fibers, N workers.
//
//     verge::fibers::scheduler fibers;                                 // examples/fiber_calls.cpp
//     auto f = fibers.spawn([] { verge::this_fiber::sleep_for(1s); return 42; });
//     f.join();                                                        // from a thread or a fiber
//
// It is for programs that do many things at once, each written as sequential code that waits: a
// sleeping fiber costs a page of stack, and no thread.
//
// Not for long computations without a wait where latency matters (they occupy their worker), nor
// for calls that block the thread: wrap these in blocking().
//
// Guarantees, under the names of the tests that hold them
//   RunsEachFiberOnce             on some worker, from its first run to its end.
//   YieldGoesToTheBack            fibers that are ready take turns.
//   OutsideSpawnsGetTheirTurn     also when the workers are busy yielding.
//   NobodyIsStranded              a fiber that is ready runs on any worker that is free.
//   ARefusedStackIsACountedWait   of a fiber that has not begun; allocation is retried.
//   AnIdleSchedulerSleeps         at min_workers it makes no system call.
//   StopNamesTheStuck             stop(deadline) returns the fibers that have not ended, and why.
//   DestructionWaitsForAll        and leaks nothing.
//
// Thread safety: all members from any thread; construction and destruction alone, and destruction
// not from a fiber of its own.
// Exceptions: spawn throws std::bad_alloc, std::system_error (resource_unavailable_try_again at
// max_fibers, operation_canceled after stop()); then nothing was spawned.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/stats.hpp>
#include <verge/fibers/fiber.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace verge {
class timer_thread;
}

namespace verge::fibers {

/// spawn(urgent, f): the child runs at once, and its parent goes to the run queue.
struct urgent_t {
    explicit urgent_t() = default;
};
inline constexpr urgent_t urgent{};

/// spawn(batched, f): no worker is woken for it until flush(), the next spawn of another kind, or
/// the spawner's next wait.
struct batched_t {
    explicit batched_t() = default;
};
inline constexpr batched_t batched{};

struct spawn_options {
    stack_kind stack = stack_kind::normal;
    std::string name = {};  ///< For stop() and debuggers.
    /// The deadline in force for the spawner is in force for the fiber
    /// (verge/sync/cancellation.hpp).
    bool inherit_deadline = true;
};

enum class fiber_state : std::uint8_t {
    runnable,  // it runs, or is ready to run
    sleeping,
    waiting,  // for something else: see wait_kind
};

[[nodiscard]] constexpr fiber_state state_of(verge::wait_kind waits_for) noexcept {
    if (waits_for == verge::wait_kind::nothing) return fiber_state::runnable;
    return waits_for == verge::wait_kind::sleep ? fiber_state::sleeping : fiber_state::waiting;
}

/// A snapshot of a fiber that has not ended.
struct fiber_info {
    fiber_id id;
    std::string name;
    verge::wait_kind waits_for = verge::wait_kind::nothing;

    [[nodiscard]] fiber_state state() const noexcept { return state_of(waits_for); }
};

namespace detail {

class scheduler_core;

enum class spawn_mode : std::uint8_t { normal, urgent, batched };

template <class F>
concept takes_stop_token = std::invocable < std::decay_t<F>
&, std::stop_token > ;

template <class F>
struct returned_by {
    using type = std::invoke_result_t<std::decay_t<F>&>;
};
template <takes_stop_token F>
struct returned_by<F> {
    using type = std::invoke_result_t<std::decay_t<F>&, std::stop_token>;
};

// An lvalue reference stays one; every other type loses its reference, const and volatile.
template <class F, class R = typename returned_by<F>::type>
using fiber_result = std::conditional_t<std::is_lvalue_reference_v<R>, R, std::remove_cvref_t<R>>;

}  // namespace detail

template <class F>
concept fiber_function = std::constructible_from<std::decay_t<F>, F> &&
    (std::invocable<std::decay_t<F>&> || detail::takes_stop_token<F>);

class scheduler {
public:
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    struct options {
        std::string name = "verge-fiber";  ///< Threads are called name/0, name/1 ...
        std::size_t min_workers = 1;       ///< Started by the constructor; 1 to 1024.
        std::size_t max_workers = 0;       ///< Started on demand; 0: the number of processors.
        duration idle =
            std::chrono::seconds(5);  ///< A worker above the minimum ends after this idle time.
        unsigned spin = 0;  ///< How many times a worker searches for work before it sleeps.
        std::vector<int> cpus = {};  ///< The processors that workers may run on; empty: any.
        std::size_t small_stack = std::size_t{16} * 1024;
        std::size_t normal_stack = std::size_t{64} * 1024;
        std::size_t large_stack = std::size_t{1024} * 1024;
        bool guards = true;                  ///< A guard page below each stack: an overflow faults.
        bool name_overflows = false;         ///< Installs a SIGSEGV handler that names the fiber.
        std::size_t keep_stacks = 4096;      ///< Free stacks of each kind that keep their memory.
        std::size_t max_fibers = unlimited;  ///< Fibers that have not ended.  Spawning more throws.
        timer_thread* timers = nullptr;      ///< For sleeps; nullptr: timer_thread::shared().
        /// Receives the exceptions of detached fibers; empty: std::terminate.  Must not throw.
        std::function<void(std::exception_ptr)> on_exception = {};
    };

    struct statistics {
        std::uint64_t spawned = 0;
        std::uint64_t finished = 0;
        std::uint64_t live = 0;
        std::uint64_t runnable = 0;
        std::uint64_t sleeping = 0;
        std::uint64_t waiting = 0;
        std::uint64_t starved = 0;
        std::uint64_t switches = 0;
        std::uint64_t stolen = 0;
        std::uint64_t parks = 0;
        std::uint64_t wake_signals = 0;
        std::uint64_t workers = 0;
        std::uint64_t idle_workers = 0;
        std::uint64_t workers_refused = 0;
        std::uint64_t busy_ns = 0;
        std::vector<std::uint64_t> worker_busy_ns;  ///< Each worker's part of busy_ns.
        std::uint64_t stacks = 0;
        std::uint64_t stacks_pooled = 0;
        std::uint64_t stacks_refused = 0;
        std::uint64_t guard = 0;

        template <class Visitor>
        void visit(Visitor&& v) const {
            v("spawned", stat_kind::counter, spawned, "fibers spawned");
            v("finished", stat_kind::counter, finished, "fibers that are over");
            v("live", stat_kind::gauge, live, "fibers that are not over");
            v("runnable", stat_kind::gauge, runnable, "of these: running, or ready to");
            v("sleeping", stat_kind::gauge, sleeping, "of these: asleep");
            v("waiting", stat_kind::gauge, waiting, "of these: waiting for something else");
            v("starved", stat_kind::gauge, starved, "of those waiting: for a stack");
            v("switches", stat_kind::counter, switches, "times a worker went to another fiber");
            v("stolen", stat_kind::counter, stolen, "times a worker took from another's queue");
            v("parks", stat_kind::counter, parks, "times a worker went to sleep");
            v("wake_signals", stat_kind::counter, wake_signals,
              "times a worker was woken for work that was made ready");
            v("workers", stat_kind::gauge, workers, "worker threads, until they are joined");
            v("idle_workers", stat_kind::gauge, idle_workers, "workers asleep");
            v("workers_refused", stat_kind::counter, workers_refused,
              "times the system refused one worker more, or its cpus");
            v("busy_ns", stat_kind::counter, busy_ns, "nanoseconds of processor time of workers");
            v("stacks", stat_kind::gauge, stacks, "stacks that fibers run on, or workers keep");
            v("stacks_pooled", stat_kind::gauge, stacks_pooled,
              "free stacks that keep their memory");
            v("stacks_refused", stat_kind::counter, stacks_refused,
              "fibers that had to wait for a stack, since the kernel refused one");
            v("guard", stat_kind::gauge, guard, "stack guards: 0 madvise, 1 mprotect, 2 none");
        }
    };

    scheduler();

    /// Starts min_workers.  Throws std::invalid_argument for invalid options, std::system_error
    /// naming the call if the system refuses a thread or its cpus, std::bad_alloc.  A thread that
    /// is refused later is counted (workers_refused): the existing workers do the work, and
    /// starting one is retried when there is more work, at most every 100 ms.
    explicit scheduler(const options& opts);

    /// Waits until all fibers have ended, then for the workers.
    ~scheduler();

    scheduler(const scheduler&) = delete;
    scheduler& operator=(const scheduler&) = delete;

    /// The process-wide instance: constructed on first use, never destroyed.
    static scheduler& shared();

    /// The scheduler of the calling fiber; nullptr on a plain thread.
    [[nodiscard]] static scheduler* current() noexcept;

    /// Runs `f` in a new fiber; passes it a std::stop_token, if it takes one.
    template <fiber_function F>
    auto spawn(F&& f, const spawn_options& opts = {}) {
        return spawn_as(detail::spawn_mode::normal, std::forward<F>(f), opts);
    }
    template <fiber_function F>
    auto spawn(urgent_t, F&& f, const spawn_options& opts = {}) {
        return spawn_as(detail::spawn_mode::urgent, std::forward<F>(f), opts);
    }
    template <fiber_function F>
    auto spawn(batched_t, F&& f, const spawn_options& opts = {}) {
        return spawn_as(detail::spawn_mode::batched, std::forward<F>(f), opts);
    }

    /// Wakes workers for the batched spawns of this thread.
    void flush() noexcept;

    /// Runs `fn` in a detached fiber: an executor, as for timer_thread's run_on.
    void execute(callback fn);

    /// Interrupts the fiber with this id.  False if it has ended.
    bool interrupt(fiber_id id) noexcept;

    /// Requests a stop of all fibers, refuses new ones, and waits for the end of all, at most until
    /// `deadline`.  Returns those that have not ended.  Throws std::bad_alloc, and in a fiber
    /// std::system_error if the timer thread refuses a timer: the stop was requested all the same.
    std::vector<fiber_info> stop(time_point deadline = never);

    /// The upper limit of the number of workers.
    [[nodiscard]] std::size_t max_workers() const noexcept;

    /// Passes an exception to on_exception, as one that leaves a detached fiber.
    void report(std::exception_ptr error) noexcept;

    /// Returns memory that no fiber uses to the system.
    void trim() noexcept;

    /// Visits every fiber that has not ended, a few per hold of a lock: a million take some 20 ms.
    [[nodiscard]] statistics stats() const;

    /// The fibers that have not ended.  One that is spawned or ends during the call may or may not
    /// be included.
    [[nodiscard]] std::vector<fiber_info> living() const;

private:
    friend class detail::scheduler_core;

    template <class F>
    auto spawn_as(detail::spawn_mode mode, F&& f, const spawn_options& opts) {
        using result = detail::fiber_result<F>;
        std::stop_source stop(std::nostopstate);
        detail::fiber_value<result> value;
        callback body;
        if constexpr (!std::is_void_v<result>) {
            value.value = std::make_shared<typename detail::fiber_value<result>::kept>();
        }
        if constexpr (detail::takes_stop_token<F>) {
            stop = std::stop_source();
            if constexpr (std::is_void_v<result>) {
                body = [f = std::decay_t<F>(std::forward<F>(f)),
                        token = stop.get_token()]() mutable { f(std::move(token)); };
            } else {
                body = [f = std::decay_t<F>(std::forward<F>(f)), token = stop.get_token(),
                        to = value.value]() mutable { to->emplace(f(std::move(token))); };
            }
        } else if constexpr (std::is_void_v<result>) {
            body = std::forward<F>(f);
        } else {
            body = [f = std::decay_t<F>(std::forward<F>(f)), to = value.value]() mutable {
                to->emplace(f());
            };
        }
        return fiber<result>(start(mode, std::move(body), opts, std::move(stop)), std::move(value));
    }

    detail::fiber_ref start(detail::spawn_mode mode, callback&& fn, const spawn_options& opts,
                            std::stop_source&& stop);

    detail::scheduler_core* core_;
};

/// Spawns on the scheduler of the calling fiber, or on the shared one.
template <fiber_function F>
auto spawn(F&& f, const spawn_options& opts = {}) {
    scheduler* const own = scheduler::current();
    return (own != nullptr ? *own : scheduler::shared()).spawn(std::forward<F>(f), opts);
}

}  // namespace verge::fibers
