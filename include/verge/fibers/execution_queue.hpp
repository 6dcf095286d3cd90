// verge/fibers/execution_queue.hpp -- many producers, and one fiber at a time that consumes in
// order.
//
//     verge::fibers::execution_queue<line> log(fibers, [&](line l) { file << l; });
//     log.push(text);                                                   // any thread or fiber
//
// While there is nothing to consume there is no consumer: the first push starts a fiber, which ends
// when the queue is empty.  So what it consumes needs no lock, and no thread waits for it.
//
// Guarantees, under the names of the tests that hold them
//   KeepsTheOrder              of the pushes of one thread.
//   OneConsumerAtATime
//   DestructionConsumesTheRest the destructor waits until all that was pushed is consumed.
//
// Invariants
//   EQ1  running_ changes under the lock: to 1 by the push that finds it 0 and starts the consumer,
//       to 0 by the consumer that finds nothing.  So nothing is left without a consumer.
//   EQ2  After that 0, and the unlock, the consumer uses only the address.  join() reads the 0 and
//       then takes the lock: everything that the consumer did happens before.
//
// Memory orders
//   All relaxed: the lock orders everything.  tests/model/fiber_handover_model.cpp explores this
//   source.
//
// Thread safety: push() and join() from any thread or fiber; destruction alone, not by the
// consumer.
// Exceptions: push() throws std::bad_alloc: then nothing was pushed.  If no fiber can be spawned,
// the thread that pushes consumes.  What the consumer throws goes to the scheduler's on_exception;
// the queue continues with the next item.

#pragma once

#include <verge/base/detail/spin_lock.hpp>
#include <verge/fibers/detail/run_queue.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/sync/detail/waiter.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace verge::fibers {

template <class T>
class execution_queue {
public:
    execution_queue(scheduler& on, std::function<void(T)> consume)
        : on_(on), consume_(std::move(consume)) {}
    ~execution_queue() { join(); }
    execution_queue(const execution_queue&) = delete;
    execution_queue& operator=(const execution_queue&) = delete;

    void push(T value) {
        auto made = std::make_unique<node>(std::move(value));
        bool start = false;
        {
            const verge::detail::lock_scope hold(lock_);
            nodes_.push(made.get());
            // relaxed: under the lock.
            start = running_.load(std::memory_order_relaxed) == 0;
            if (start) running_.store(1, std::memory_order_relaxed);  // relaxed: the same
        }
        static_cast<void>(made.release());  // owned by the consumer
        if (!start) return;
        try {
            on_.execute([this] { run(); });
        } catch (...) {
            run();  // no fiber can be spawned: consume here
        }
    }

    /// Waits until all that was pushed so far is consumed, and the consumer has ended.
    void join() {
        // relaxed: the lock orders it.
        while (running_.load(std::memory_order_relaxed) != 0)
            static_cast<void>(wait_uninterrupted(running_, 1));
        // The consumer has released the lock: what it did is visible, and it does not lock again.
        const verge::detail::lock_scope hold(lock_);
    }

private:
    struct node {
        explicit node(T&& v) : value(std::move(v)) {}
        T value;
        node* next = nullptr;
    };

    void run() {
        for (;;) {
            detail::task_list<node> batch;
            {
                const verge::detail::lock_scope hold(lock_);
                batch.append(nodes_);
                if (batch.empty()) {
                    // relaxed: join(), which reads it, takes the lock afterwards.
                    running_.store(0, std::memory_order_relaxed);
                }
            }
            if (batch.empty()) break;
            while (node* const each = batch.pop()) {
                const std::unique_ptr<node> owned(each);
                try {
                    consume_(std::move(owned->value));
                } catch (const forced_unwind&) {
                    // The scheduler stops: this value is consumed as far as it got.
                    verge::detail::sync::current().end_unwinding();
                } catch (...) {
                    on_.report(std::current_exception());
                }
            }
        }
        notify_all(running_);  // uses the address only: the queue may be destroyed
    }

    scheduler& on_;
    const std::function<void(T)> consume_;
    verge::detail::spin_lock lock_;
    detail::task_list<node> nodes_ VERGE_GUARDED_BY(lock_);
    std::atomic<std::uint32_t> running_{0};  // 1 while there is a consumer; written under lock_
};

}  // namespace verge::fibers
