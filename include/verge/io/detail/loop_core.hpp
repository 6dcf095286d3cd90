// verge/io/detail/loop_core.hpp -- the queue of ready operations, and the threads that run them.
//
// One queue under one lock; each thread in run() has a private queue besides.  Where only one
// thread runs (concurrency hint 1), what it posts itself goes to its private queue, and what others
// post to an inbox (op_inbox.hpp), from which it takes all at once: all that without a lock.
// Otherwise a thread takes one operation at a time, so that a handler which waits for another one's
// work does not keep that from the others.
//
// The reactor is run by whoever has nothing to do, or after `reactor_every` operations: one thread
// at a time, the leader.  The others park.  A thread that takes an operation and leaves work
// behind, or an idle reactor, wakes one parked thread.
//
// What counts as work: operations in a queue or the inbox (not counted: the queue is looked at),
// threads that are inside a handler (active_), and what was announced: guards (outstanding_) and
// pending waits. A thread in run() counts announcements privately, and adds them when it next takes
// the lock; it is active until then, so nobody misses them.  Other threads count the waits that
// they begin each in a cell of its own (begun_), and their ends are counted under the lock
// (waits_): the sum is how many are pending.  There is no work left when both queues are empty,
// nobody is active, and outstanding_ and that sum are 0: then the loop is stopped, as by
// stop().
//
// Invariants
//   LC1  queue_, active_, waits_, idle_, leading_ and blocked_ change under lock_ only.
//   LC2  While blocked_, the leader is in the reactor, or about to be, and a thread that adds work
//        interrupts it.
//   LC3  An operation becomes ready (pushed) before the work that announced it is finished.  The
//        end of a wait is counted by the thread that makes it ready, or takes it from the inbox.
//   LC4  With an inbox, a thread that sleeps has stored that there (fall_asleep) under lock_,
//        together with what says how to wake it; a thread that leaves run() stores it again for
//        those that sleep on.
//   LC5  A thread outside touches nothing of this once its effect can be seen, unless it has
//        counted itself in late_ before: then the end waits for it.  So the context may be
//        destroyed when run() has returned, though the post of the last operation, the end of the
//        last guard, or the stop() that led to it has not.
//
// Memory orders: see docs/memory_model.md.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/optional_lock.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/base/detail/thread_annotations.hpp>
#include <verge/base/parker.hpp>
#include <verge/driver/reactor.hpp>
#include <verge/io/detail/op_inbox.hpp>
#include <verge/io/detail/operation.hpp>
#include <verge/io/execution_context.hpp>

#include <atomic>
#include <cstddef>
#include <memory>

namespace verge::detail::io {

/// How many threads may meet in a loop.
enum class threading {
    safe,    // any number run it
    single,  // one runs it; others may post
    unsafe,  // one thread does everything: no locks
};

class loop_core;

/// What the reactor's callbacks get as their sink: operations that became ready.
struct ready_sink {
    loop_core* loop = nullptr;  // that runs; nullptr: it ends
    op_queue ready;
    std::size_t count = 0;
    std::ptrdiff_t finished = 0;  // waits that ended by becoming ready

    void add(operation* op) noexcept {
        ready.push(op);
        ++count;
        ++finished;
    }
};

class loop_timers;

class loop_core final : public execution_context::service {
public:
    explicit loop_core(execution_context& context, threading mode = threading::safe);
    ~loop_core() override;
    loop_core(const loop_core&) = delete;
    loop_core& operator=(const loop_core&) = delete;

    // ---- running --------------------------------------------------------------------------------

    /// Runs operations: at most `most`, until stopped, out of work, or `until`.
    std::size_t run(std::size_t most, time_point until);
    /// Runs what is ready; does not wait.
    std::size_t poll(std::size_t most);

    void stop() noexcept;
    [[nodiscard]] bool stopped() const noexcept {
        // relaxed: a sign; whoever must see what came before it meets the lock.
        return stopped_.load(std::memory_order_relaxed);
    }
    void restart() noexcept;

    /// Whether this thread is inside run() or poll() of this.
    [[nodiscard]] bool running_in_this_thread() const noexcept;

    // ---- work -----------------------------------------------------------------------------------

    /// Makes an operation ready.  A continuation stays with the thread that posts it.
    void post(operation* op, bool is_continuation) noexcept;

    /// Soon there will be a post: saves it a wait for memory.
    void expect_post() const noexcept { inbox_.expect_push(); }

    /// A guard: there is work, and no longer.
    void work_started() noexcept;
    void work_finished() noexcept;

    /// Announces an operation that will become ready later.
    void wait_begun() noexcept;
    /// It will not.
    void wait_not_begun() noexcept;
    /// Announced operations become ready.
    void post_announced(op_queue& ops, std::ptrdiff_t count) noexcept;

    /// Whether more than one thread may be here.
    [[nodiscard]] bool has_locks() const noexcept { return mode_ != threading::unsafe; }

    // ---- the reactor ----------------------------------------------------------------------------

    /// Made on first use.
    [[nodiscard]] reactor& use_reactor();

    /// The context's service of timers, once it is there.
    [[nodiscard]] loop_timers* timers() const noexcept {
        // acquire: pairs with the release in set_timers().
        return timers_.load(std::memory_order_acquire);
    }
    void set_timers(loop_timers* made) noexcept {
        // release: who finds it sees it complete.
        timers_.store(made, std::memory_order_release);
    }

private:
    struct thread_info;
    class run_scope;

    void shutdown() override;
    void notify_fork(fork_event event) override;

    [[nodiscard]] static thread_info* find(const loop_core* of) noexcept;

    std::size_t run_some(std::size_t most, time_point until, bool block);
    [[nodiscard]] operation* next(thread_info& me, time_point until, bool block);
    [[nodiscard]] operation* next_in_turn(thread_info& me, time_point until, bool block);
    // May give the lock up for a while, as may lead(), park() and spin_for_posts().
    [[nodiscard]] operation* next_slowly(thread_info& me, time_point until, bool block)
        VERGE_REQUIRES(lock_);
    void lead(thread_info& me, time_point until, bool block) VERGE_REQUIRES(lock_);
    void park(thread_info& me, time_point until) noexcept VERGE_REQUIRES(lock_);
    [[nodiscard]] bool spin_for_posts() noexcept VERGE_REQUIRES(lock_);
    void leave(thread_info& me) noexcept;
    void settle(thread_info& me) noexcept VERGE_REQUIRES(lock_);
    [[nodiscard]] bool out_of_work() const noexcept VERGE_REQUIRES(lock_);
    void stop_if_out_of_work() noexcept;
    [[nodiscard]] std::atomic<std::ptrdiff_t>& own_cell() noexcept;
    [[nodiscard]] thread_info* pop_idle() noexcept VERGE_REQUIRES(lock_);
    void stop_locked(thread_info*& to_wake, bool& interrupt) noexcept VERGE_REQUIRES(lock_);
    void unlock_and_wake() noexcept VERGE_RELEASE(lock_);
    void unlock_and_finish(thread_info* woken, bool interrupt) noexcept VERGE_RELEASE(lock_);
    void wake_sleeper() noexcept;
    void take_inbox(op_queue& to) noexcept VERGE_REQUIRES(lock_);
    void leave_inbox() noexcept VERGE_REQUIRES(lock_);
    void finish(thread_info* woken, bool interrupt) noexcept;

    // Keeps what different threads write out of one another's cache lines.  Not alignas: services
    // may be in memory of a user's allocator, which need not know of such.
    struct gap {
        std::byte unused[64];
    };

    // Read by all, written once or seldom.
    const threading mode_;
    std::atomic<bool> stopped_{false};
    std::atomic<reactor*> reactor_{nullptr};  // set once, under lock_
    std::atomic<loop_timers*> timers_{nullptr};
    std::unique_ptr<reactor> reactor_owner_;
    gap before_queue_;

    // Of the threads that run; and of those that post, but with an inbox.
    optional_lock<spin_lock> lock_;
    op_queue queue_ VERGE_GUARDED_BY(lock_);
    std::ptrdiff_t active_ VERGE_GUARDED_BY(lock_) = 0;  // threads in a handler, or that hold any
    std::ptrdiff_t waits_ VERGE_GUARDED_BY(lock_) = 0;  // begun by threads that run, less all ended
    bool leading_ VERGE_GUARDED_BY(lock_) = false;      // a thread runs the reactor
    bool blocked_ VERGE_GUARDED_BY(lock_) = false;      // it may sleep there
    thread_info* idle_ VERGE_GUARDED_BY(lock_) = nullptr;  // parked threads, the last first
    unsigned since_reactor_ VERGE_GUARDED_BY(lock_) = 0;   // operations since the reactor last ran
    // After this many the reactor is overdue; fewer where they last long.  Written under lock_;
    // read without it where only one thread runs.
    unsigned every_ = 64;
    time_point last_look_ VERGE_GUARDED_BY(lock_) = {};  // at the reactor, with work left; else 0
    bool spin_next_ VERGE_GUARDED_BY(lock_) = false;     // a post ended the last sleep very soon
    bool spinning_ VERGE_GUARDED_BY(lock_) = false;      // the leader polls hint_ before it sleeps
    std::atomic<bool> hint_{false};  // to a leader that spins: something was posted
    gap before_work_;

    std::atomic<std::ptrdiff_t> outstanding_{0};
    op_inbox inbox_;   // with threading::single: what comes from outside
    latecomers late_;  // threads outside that are still to wake somebody
    gap before_cells_;

    // Waits that were begun by threads outside; a thread has its cell by its number.
    struct cell {
        std::atomic<std::ptrdiff_t> begun_{0};
        gap after;
    };
    static constexpr unsigned cell_count = 8;
    cell cells_[cell_count];
};

}  // namespace verge::detail::io
