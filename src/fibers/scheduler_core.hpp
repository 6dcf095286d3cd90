// src/fibers/scheduler_core.hpp -- the state that the workers of one scheduler share.

#pragma once

#include "fibers/fiber_record.hpp"
#include "fibers/worker.hpp"
#include <verge/base/detail/slot_pool.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/driver/timer_thread.hpp>
#include <verge/fibers/detail/census.hpp>
#include <verge/fibers/detail/crew.hpp>
#include <verge/fibers/detail/parking_lot.hpp>
#include <verge/fibers/scheduler.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace verge::fibers::detail {

class scheduler_core {
public:
    scheduler_core(scheduler& front, const scheduler::options& opts);
    scheduler_core(const scheduler_core&) = delete;
    scheduler_core& operator=(const scheduler_core&) = delete;

    /// Ends a scheduler: waits for all fibers, then for the workers.  The core stays alive while
    /// handles refer to its fibers.
    void shut_down() noexcept;

    // ---- spawning -------------------------------------------------------------------------------
    fiber_record* spawn(spawn_mode mode, callback&& fn, const spawn_options& opts,
                        std::stop_source&& stop, bool joinable);
    void flush() noexcept;
    /// Delivers the deferred wake-ups of this thread for schedulers that it is not a worker of.
    static void flush_outside_wakeups() noexcept;

    /// Puts a fiber that is ready into a queue, and wakes a worker for it.
    void make_ready(fiber_record& r) noexcept;

    /// Wakes a worker, or starts one, for work that was just published.
    void announce() noexcept {
        if (lot.notify()) {
            wake_signals_.fetch_add(1, std::memory_order_relaxed);  // relaxed: for statistics
            return;
        }
        if (lot.waiters() != 0) return;
        if (crew_.incomplete(workers.size())) grow();
    }

    // ---- records --------------------------------------------------------------------------------
    using record_pool = verge::detail::slot_pool<fiber_record>;
    void take_records(task_list<fiber_record>& to, std::size_t count);
    void free_records(task_list<fiber_record>& from) noexcept;
    void release(fiber_record& r) noexcept;  // one reference less
    [[nodiscard]] fiber_ref pin(fiber_id id) noexcept;
    [[nodiscard]] static fiber_id id_of(const fiber_record& r) noexcept {
        return fiber_id(record_pool::id_of(r));
    }

    // ---- workers --------------------------------------------------------------------------------
    [[nodiscard]] bool any_work() const noexcept;
    [[nodiscard]] bool closing() const noexcept {
        return closing_.load(std::memory_order_seq_cst);  // seq_cst: after the lot's prepare()
    }
    [[nodiscard]] bool may_end(unsigned index) noexcept;
    /// Threads of workers that have ended are joined by the next idle worker, which checks for them
    /// as for work.
    [[nodiscard]] bool threads_to_join() const noexcept { return crew_.any_ended(); }
    void join_ended() noexcept;
    /// Wakes the waiters for the end of all fibers, if all have ended.
    void worker_is_idle() noexcept { fibers_.look(workers); }

    // Fibers for which the kernel refused a stack wait here until a worker gives them one: a stack
    // that was given back, or a new one.  Allocation is retried every stack_pause, by the first
    // worker that is between two fibers or wakes from its sleep.
    void no_stack_for(fiber_record& r) noexcept;
    [[nodiscard]] fiber_record* next_starved(stack_kind kind) noexcept;  // nullptr: none
    [[nodiscard]] bool any_starved() const noexcept {
        return starved_size_.load(std::memory_order_relaxed) != 0;  // relaxed: a hint
    }
    [[nodiscard]] bool is_starved(stack_kind kind) noexcept;
    [[nodiscard]] time_point next_stack_try() const noexcept;
    // True: the caller retries now, and no other worker does.
    [[nodiscard]] bool may_try_for_stacks() noexcept;

    void report(std::exception_ptr error) noexcept;
    void one_finished() noexcept;

    std::vector<fiber_info> stop(time_point deadline);
    void trim() noexcept;
    [[nodiscard]] scheduler::statistics stats() const;
    [[nodiscard]] std::vector<fiber_info> living() const;

    scheduler* const front;
    const scheduler::options options;
    timer_thread& timers;
    std::vector<std::unique_ptr<worker>> workers;  // max_workers of them; not all have a thread
    parking_lot lot;
    std::array<std::unique_ptr<stack_pool>, 3> stacks;

private:
    ~scheduler_core();

    // Counts a spawn by a thread that is not a worker; undone if the spawn fails.
    class outside_count {
    public:
        explicit outside_count(scheduler_core* of) noexcept;
        ~outside_count();
        outside_count(const outside_count&) = delete;
        outside_count& operator=(const outside_count&) = delete;
        void keep() noexcept { of_ = nullptr; }

    private:
        scheduler_core* of_;
    };

    // All cores of the process, for debuggers: tools/gdb/verge.py finds the fibers from here.
    // Under the lock of the list.
    void enter_list() noexcept;
    static scheduler_core* first_core;
    scheduler_core* next_core_ = nullptr;

    void grow() noexcept;
    void start_thread(worker& w);  // under threads_lock_
    void join_thread(worker& w, std::unique_lock<verge::detail::thread_mutex>& hold) noexcept;
    [[nodiscard]] bool called_by_ending_worker() const noexcept;  // under threads_lock_
    void end_threads() noexcept;
    static void defer_wakeup(fiber_record& r) noexcept;
    [[nodiscard]] bool wait_for_all(time_point deadline);
    void count_in();
    template <class F>
    bool visit_records(record_pool::cursor& at, F&& f) const;
    template <class F>
    void for_each_unfinished(F&& f) const;
    static void* thread_main(void* w);

    // Pool of records.
    mutable verge::detail::spin_lock records_lock_;
    record_pool records_ VERGE_GUARDED_BY(records_lock_);
    bool orphaned_ VERGE_GUARDED_BY(records_lock_) =
        false;  // the scheduler is destroyed, handles remain

    mutable verge::detail::thread_mutex threads_lock_;
    crew crew_;  // which workers have a thread; written under threads_lock_
    // Under threads_lock_.
    std::size_t joining_ = 0;  // threads that are being joined
    std::uint64_t workers_refused_ = 0;
    time_point grow_again_{};  // the system refused a thread: not before this
    static constexpr duration growth_pause = std::chrono::milliseconds(100);

    std::atomic<std::uint64_t> wake_signals_{0};  // written by threads that make work ready
    std::atomic<std::size_t> unfinished_{0};      // counted only if there is a limit
    std::atomic<bool> closing_{false};            // workers have to end
    census fibers_;  // whether new ones are refused, and all have ended

    // Fibers without a stack, by kind.
    static constexpr duration stack_pause = std::chrono::milliseconds(10);
    verge::detail::spin_lock starved_lock_;
    task_list<fiber_record> starved_[3] VERGE_GUARDED_BY(starved_lock_);
    std::atomic<std::size_t> starved_size_{0};      // of all; written under starved_lock_
    std::atomic<duration::rep> next_stack_try_{0};  // ns since the epoch of the clock
    std::atomic<std::uint64_t> stacks_refused_{0};
};

}  // namespace verge::fibers::detail
