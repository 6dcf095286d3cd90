// src/fibers/blocking.cpp -- the helper threads that make blocking calls for fibers.

#include "fibers/fiber_record.hpp"
#include "fibers/worker.hpp"
#include <verge/base/detail/os_thread.hpp>
#include <verge/fibers/blocking.hpp>
#include <verge/sync/wait.hpp>

#include <chrono>
#include <mutex>
#include <system_error>
#include <utility>

namespace verge::fibers::detail {

namespace {

using verge::detail::os_thread;
using verge::detail::thread_condition;
using verge::detail::thread_mutex;

// On the stack of the fiber that waits for it.
struct job {
    callback call;
    std::atomic<std::uint32_t> done{0};
    job* next = nullptr;
};

// Threads that make calls for fibers.
//
// Invariants
//   BK1  Each queued job has an idle helper that no other job counts on, or one was started for it,
//       or no more can be started: then the existing ones take it.
//   BK2  A helper ends under the lock, and only if nothing is queued.
//   BK3  After done is set, the helper uses only the job's address: the fiber may have ended.
//
// tests/model/fiber_handover_model.cpp explores this source.
class helper_threads {
public:
    /// Throws std::system_error if there is no helper and none can be started.
    void submit(job& j) {
        const std::lock_guard hold(lock_);
        if (idle_ <= queued_.size() && threads_ < most) start_one();
        queued_.push(&j);
        more_.notify_one();
    }

private:
    static constexpr std::size_t most = 512;
    static constexpr auto patience = std::chrono::seconds(5);

    void start_one() {
        try {
            os_thread(&thread_main, this, {.name = "verge-blocking"}).detach();
            ++threads_;
        } catch (const std::system_error&) {
            if (threads_ == 0) throw;  // otherwise an existing helper takes it later
        }
    }

    static void* thread_main(void* self) noexcept {
        static_cast<helper_threads*>(self)->run();
        return nullptr;
    }

    void run() noexcept {
        std::unique_lock hold(lock_);
        for (;;) {
            ++idle_;
            const bool in_time =
                more_.wait_until(hold, deadline_after(steady_source{}.now(), patience),
                                 [&] { return !queued_.empty(); });
            --idle_;
            if (!in_time) break;
            job& j = *queued_.pop();
            hold.unlock();
            j.call();
            // release: what the call wrote; pairs with the acquire of the waiter.  The job may be
            // destroyed after this: notify uses its address only.
            j.done.store(1, std::memory_order_release);
            notify_one(j.done);
            hold.lock();
        }
        --threads_;
    }

    thread_mutex lock_;
    thread_condition more_;
    task_list<job> queued_;    // under lock_
    std::size_t threads_ = 0;  // under lock_
    std::size_t idle_ = 0;     // under lock_: waiting for a job
};

// Never destroyed: helpers may be inside a call when the program ends.
helper_threads& helpers() {
    static helper_threads& all = *new helper_threads;
    return all;
}

}  // namespace

void run_blocking(callback call) {
    const worker* const w = worker::here();
    if (w == nullptr || w->current() == nullptr || w->current()->kind == stack_kind::native) {
        call();
        return;
    }
    job j{.call = std::move(call)};
    helpers().submit(j);
    const wait_scope showing(current(), wait_kind::helper);
    // acquire: pairs with the release in run().
    while (j.done.load(std::memory_order_acquire) == 0)
        static_cast<void>(wait_uninterrupted(j.done, 0));
}

}  // namespace verge::fibers::detail
