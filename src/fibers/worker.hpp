// src/fibers/worker.hpp -- one thread that runs fibers.
//
// A worker is in one of three states (docs/design/fibers.md draws them):
//
//     main     on its own stack, running no fiber: searches its queue, the remote queue and other
//              workers' queues; or sleeps in the parking lot.
//     native   on its own stack, running a native fiber from its beginning to its end.
//     fiber    on a fiber's stack.  A fiber that waits, yields or ends picks the next one and
//              switches straight to it; with none ready, or a native one, to the worker's own.
//
// What must happen to a fiber that was left can be done only by the code that runs after the
// switch: made ready before, it could run elsewhere while its stack is still in use.  So the fiber
// that leaves records what has to follow (`after`), and the target of the switch calls settle()
// first.
//
// The compiler may keep the address of a thread-local variable across a switch, after which the
// fiber may be on another thread.  So carrier::here() is not inlined, and nothing that was found
// through it is used after a switch.

#pragma once

#include "fibers/fiber_record.hpp"
#include <verge/base/clock.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/base/parker.hpp>
#include <verge/driver/detail/wake_lead.hpp>
#include <verge/fibers/detail/census.hpp>
#include <verge/fibers/detail/execution.hpp>
#include <verge/fibers/detail/remote_queue.hpp>
#include <verge/fibers/detail/run_queue.hpp>
#include <verge/fibers/detail/stack_pool.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace verge::fibers::detail {

class scheduler_core;

class worker final : public verge::detail::sync::carrier {
public:
    worker(scheduler_core& core, unsigned index, bool shared);
    ~worker() = default;
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;

    /// The worker of the calling thread, or nullptr.
    [[nodiscard]] static worker* here() noexcept {
        return static_cast<worker*>(carrier::here());  // no other carrier is installed
    }

    [[nodiscard]] scheduler_core& core() const noexcept { return core_; }
    [[nodiscard]] fiber_record* current() const noexcept {
        return static_cast<fiber_record*>(current_);
    }

    /// The thread's main function.
    void run() noexcept;

    // ---- by the fiber that runs here; each returns when that fiber runs again, perhaps elsewhere
    static bool yield() noexcept;  // false: there is no fiber that could
    static void park(fiber_record& self, waiter::epoch of) noexcept;
    static void run_child(fiber_record& child) noexcept;  // the caller goes to the back
    [[noreturn]] static void finish(fiber_record& self) noexcept;

    /// The calling worker is about to block: delivers the wake-ups of its batched spawns.
    static void flush_deferred_wakeups() noexcept;

    /// How much earlier the timer of a sleep of this length should be set, since a worker may have
    /// to be woken for it; and how late a sleep ended, to learn from.  See wake_lead.hpp.
    [[nodiscard]] static duration lead_of_sleep(duration length) noexcept;
    static void slept(duration late) noexcept;

    /// A fiber has become ready, on this thread.
    void make_ready(fiber_record& r) noexcept;

    // ---- by all workers ------------------------------------------------------------------------
    run_queue<fiber_record> queue;
    remote_queue<fiber_record> remote;

    // Written by the thread of this worker.
    census::part counts;  // of fibers
    std::atomic<std::uint64_t> switches{0};
    std::atomic<std::uint64_t> stolen{0};
    std::atomic<std::uint64_t> parks{0};

    // Under the core's lock.
    [[nodiscard]] std::uint64_t busy_ns() const noexcept;  // processor time of its threads so far
    std::uint64_t busy_before = 0;                         // of those that have ended
    enum class thread_state_of : std::uint8_t {
        none,
        running,
        ended,   // or about to: to be joined
        joining  // by a thread that does not hold the lock
    } thread = thread_state_of::none;
    verge::detail::os_thread handle;

    // ---- of this thread alone ------------------------------------------------------------------
    bool has_deferred_wakeup = false;  // for batched spawns
    [[nodiscard]] fiber_record* take_record();
    void give_record(fiber_record* r) noexcept;
    void give_back_all() noexcept;

private:
    enum class after : std::uint8_t { nothing, parked, yielded, finished };

    [[nodiscard]] bool runs_a_stack() const noexcept;
    [[nodiscard]] fiber_record* next_ready() noexcept;
    [[nodiscard]] fiber_record* end_round() noexcept;
    [[nodiscard]] fiber_record* take_overdue() noexcept;
    [[nodiscard]] fiber_record* find_work() noexcept;
    [[nodiscard]] fiber_record* search_all_queues() noexcept;
    [[nodiscard]] fiber_record* take_remote(worker& from) noexcept;
    void steal_from_stalled() noexcept;
    [[nodiscard]] bool ensure_started(fiber_record& r) noexcept;
    static void begin_on(stack& s, fiber_record& r) noexcept;
    [[nodiscard]] bool give_stack_to_starved(stack& s, stack_kind kind) noexcept;
    void retry_stack_allocation() noexcept;
    [[nodiscard]] execution& pick_target() noexcept;
    void execute(fiber_record& r) noexcept;
    void run_native(fiber_record& r) noexcept;
    void settle() noexcept;
    void end_of(fiber_record& r) noexcept;
    void leave(fiber_record& self, after what, fiber_record* next) noexcept;
    [[nodiscard]] stack* take_stack(stack_kind kind) noexcept;
    void give_stack(stack* s, stack_kind kind) noexcept;
    static void fiber_main(void* record) noexcept;
    static void run_function(fiber_record& self, callback& fn) noexcept;

    static constexpr std::uint32_t longest_round = 61;  // picks
    static constexpr duration round_length = std::chrono::microseconds(200);
    static constexpr std::size_t stack_batch = 32;
    static constexpr std::size_t record_batch = 32;

    scheduler_core& core_;
    const unsigned index_;
    thread_state here_;                    // of the thread: set by run()
    execution own_;                        // the thread's own stack
    verge::parker parker_;                 // native fibers wait by it
    fiber_record* native_next_ = nullptr;  // the next fiber for the thread's own stack
    fiber_record* left_ = nullptr;         // the fiber that was left, and what follows
    waiter::epoch left_epoch_ = 0;         // if it waits
    after after_ = after::nothing;
    std::uint32_t round_ = 1;       // picks of the present round
    std::uint32_t picks_left_ = 1;  // of these
    time_point round_began_{};
    time_point remote_seen_ = never;            // when the remote queue was first seen with tasks
    std::size_t turn_ = 0;                      // the worker that steal_from_stalled() checked last
    verge::detail::driver::wake_lead lead_;     // of sleeping fibers
    std::vector<std::uint64_t> seen_switches_;  // of each worker, when it was checked last
    stack_list stacks_[3];
    task_list<fiber_record> free_records_;
    task_list<fiber_record> used_records_;
};

}  // namespace verge::fibers::detail
