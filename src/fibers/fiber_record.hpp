// src/fibers/fiber_record.hpp -- the state of one fiber.
//
// A record is a slot of its scheduler's pool, so it is type-stable: a stale pointer to it, in a
// timer or a wait queue, finds an epoch that has passed, and does nothing.
//
// Life of a fiber
//
//     spawn -> fresh -> (first run: gets a stack) started -> ended -> (last reference) slot freed
//
// References, and the wait for the end: fiber_life.hpp.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/fibers/detail/execution.hpp>
#include <verge/fibers/detail/fiber_life.hpp>
#include <verge/fibers/detail/stack_pool.hpp>
#include <verge/fibers/fiber.hpp>
#include <verge/sync/detail/waiter.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace verge::fibers::detail {

using verge::detail::sync::block_thread;
using verge::detail::sync::claim_result;
using verge::detail::sync::current;
using verge::detail::sync::park_cell;
using verge::detail::sync::wait_scope;
using verge::detail::sync::waiter;
using verge::detail::sync::waiter_operations;
using verge::detail::sync::wake_reason;

class scheduler_core;

/// How a fiber waits: by leaving its stack; or, on its worker's own stack, in the kernel.
extern const waiter_operations fiber_operations;
extern const waiter_operations native_operations;

/// State that few fibers need.  On the heap.
class fiber_extras {
public:
    void set_name(std::string name) noexcept {
        const verge::detail::lock_scope hold(name_lock_);
        name_.swap(name);
    }
    [[nodiscard]] std::string name() const {
        std::string copy;
        copy.reserve(64);  // so that the copy rarely allocates under the lock
        const verge::detail::lock_scope hold(name_lock_);
        copy = name_;
        return copy;
    }
    /// Calls f(name) without the lock: in the fiber itself, while the program crashes.
    template <class F>
    void with_name(F&& f) const VERGE_NO_THREAD_SAFETY_ANALYSIS {
        f(name_);
    }

    std::stop_source stop{std::nostopstate};  // fixed at spawn
    struct local {
        std::size_t key;
        void* value;
    };
    std::vector<local> locals;  // in the order of construction; used by the fiber alone

private:
    mutable verge::detail::spin_lock name_lock_;
    std::string name_ VERGE_GUARDED_BY(name_lock_);  // written by the fiber, read by stop()
};

struct fiber_record final : waiter {
    fiber_record() noexcept : waiter(fiber_operations) {}
    ~fiber_record() {}  // NOLINT(modernize-use-equals-default): the union is empty by now
    fiber_record(const fiber_record&) = delete;
    fiber_record& operator=(const fiber_record&) = delete;

    /// Prepares it for its next life, with a deadline in force.  No other thread knows the record.
    void reset(stack_kind on, time_point deadline, callback&& fn) noexcept {
        kind = on;
        operations_ = on == stack_kind::native ? &native_operations : &fiber_operations;
        started = false;
        if (requests() != 0) cell_.take_away(park_cell::all_requests);
        context_ = {.deadline = deadline};
        unwinds_ = 0;
        waits_for.store(wait_kind::nothing, std::memory_order_relaxed);  // relaxed: for display
        own_stack = nullptr;
        std::construct_at(&function, std::move(fn));
    }
    /// The end of that life.
    void clear() noexcept {
        if (started) {
            std::destroy_at(&run);
        } else {
            std::destroy_at(&function);
        }
        delete extras_.exchange(nullptr,
                                std::memory_order_relaxed);  // relaxed: no other thread uses it
    }

    /// nullptr if it has none.
    [[nodiscard]] fiber_extras* extras() const noexcept {
        return extras_.load(std::memory_order_acquire);  // acquire: pairs with set_extras()
    }
    void set_extras(std::unique_ptr<fiber_extras> made) noexcept {
        extras_.store(made.release(), std::memory_order_release);  // release: what it points to
    }
    /// By the fiber itself.
    fiber_extras& make_extras() {
        if (extras() == nullptr) set_extras(std::make_unique<fiber_extras>());
        return *extras();
    }
    void destroy_locals() noexcept;

    stack_kind kind : 3 = stack_kind::normal;  // fixed at spawn
    bool started : 1 = false;                  // written by the worker that gives it a stack
    fiber_life life;
    fiber_record* next = nullptr;                 // in the queue that it is in
    scheduler_core* core = nullptr;               // the owner of the pool of this record
    stack* own_stack = nullptr;                   // from its first run to its end
    std::atomic<fiber_extras*> extras_{nullptr};  // set at spawn, or by the fiber; owned

    struct running_part {
        execution context;
        std::exception_ptr error;         // the exception that left the function; for join()
        verge::parker* blocks = nullptr;  // a native fiber waits by this
    };
    union {
        callback function;  // until its first run
        running_part run;   // from then on
    };
};

/// Destroys a fiber-local value of this key.
void destroy_local(std::size_t key, void* value) noexcept;

}  // namespace verge::fibers::detail
