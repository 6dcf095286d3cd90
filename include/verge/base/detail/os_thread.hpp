// verge/base/detail/os_thread.hpp -- a thread of the library, and a mutex and a condition for
// threads.
//
//     os_thread thread(&pool_main, this, {.name = "pool/0"});
//     thread.join();
//
// Every thread of the library is started here, with signals blocked: they are
// delivered to the threads of the program.  Those that a thread causes itself (SEGV, BUS, FPE, ILL,
// TRAP, SYS, ABRT) and PROF are not blocked: crash handlers and profilers work in callbacks, fibers
// and pools.
//
// thread_mutex and thread_condition do what std::mutex and std::condition_variable do, through the
// kernel seam (kernel.hpp), and clang's analysis knows the mutex.  They block the thread: code that
// may run in a fiber uses verge::mutex.
//
// Thread safety: an os_thread is used by one thread at a time; the other types by any.
// Exceptions: starting a thread throws std::system_error, which names the call that failed.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/thread_annotations.hpp>

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace verge::detail {

/// How many processors this process may use: at least 1.
[[nodiscard]] std::size_t processor_count() noexcept;

struct os_thread_options {
    std::string_view name;                   ///< The first 15 characters are used.
    const std::vector<int>* cpus = nullptr;  ///< Its affinity from its start; or it is not made.
};

class os_thread {
public:
    os_thread() noexcept = default;
    os_thread(void* (*main)(void*), void* argument, const os_thread_options& options);
    os_thread(os_thread&& other) noexcept { swap(other); }
    os_thread& operator=(os_thread&& other) noexcept {
        swap(other);
        return *this;
    }
    os_thread(const os_thread&) = delete;
    os_thread& operator=(const os_thread&) = delete;
    ~os_thread() = default;  // neither joins nor detaches: the owner does

    [[nodiscard]] bool joinable() const noexcept { return joinable_; }
    void join() noexcept;
    void detach() noexcept;
    /// Whether the caller is this thread, or, after its end, was.
    [[nodiscard]] bool is_caller() const noexcept;
    /// Processor time that it has used so far, in nanoseconds; 0 if the system does not report it.
    [[nodiscard]] std::uint64_t busy_ns() const noexcept;
    [[nodiscard]] pthread_t handle() const noexcept { return handle_; }

private:
    void swap(os_thread& other) noexcept;

    pthread_t handle_{};
    bool joinable_ = false;
};

class VERGE_CAPABILITY("mutex") thread_mutex {
public:
    constexpr thread_mutex() noexcept = default;
    thread_mutex(const thread_mutex&) = delete;
    thread_mutex& operator=(const thread_mutex&) = delete;
    ~thread_mutex() = default;

    void lock() noexcept VERGE_ACQUIRE() { os::pthread_mutex_lock(&mutex_); }
    [[nodiscard]] bool try_lock() noexcept VERGE_TRY_ACQUIRE(true) {
        return os::pthread_mutex_trylock(&mutex_) == 0;
    }
    void unlock() noexcept VERGE_RELEASE() { os::pthread_mutex_unlock(&mutex_); }

private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// A counter that is a futex.
///
/// Why no wake-up is lost: the waiter reads the count under the mutex, under which the notifier
/// changes the state that the condition reads.  If the change comes first, the waiter sees it and
/// does not sleep.  If it comes second, the notifier increments the count after the waiter has read
/// it: the futex finds another count and does not sleep, or the wake-up finds the sleeper.  A count
/// that wraps around (2^32 notifies while one waiter falls asleep) is not considered.
class thread_condition {
public:
    constexpr thread_condition() noexcept = default;
    thread_condition(const thread_condition&) = delete;
    thread_condition& operator=(const thread_condition&) = delete;
    ~thread_condition() = default;

    /// Waits until the condition holds, with the lock held; or until the deadline.  Returns whether
    /// it holds.
    template <class Lock, class Condition>
    bool wait_until(Lock& hold, time_point deadline, Condition condition) {
        while (!condition()) {
            if (deadline != never && steady_source{}.now() >= deadline) return false;
            const std::uint32_t seen =
                count_.load(std::memory_order_relaxed);  // relaxed: see above
            hold.unlock();
            sleep(seen, deadline);
            hold.lock();
        }
        return true;
    }
    template <class Lock, class Condition>
    void wait(Lock& hold, Condition condition) {
        static_cast<void>(wait_until(hold, never, std::move(condition)));
    }

    void notify_one() noexcept {
        count_.fetch_add(1, std::memory_order_relaxed);  // relaxed: see above
        wake_one();
    }
    void notify_all() noexcept {
        count_.fetch_add(1, std::memory_order_relaxed);  // relaxed: see above
        wake_all();
    }

private:
    void sleep(std::uint32_t seen, time_point deadline) noexcept;
    void wake_one() noexcept;
    void wake_all() noexcept;

    std::atomic<std::uint32_t> count_{0};  // of notifies
};

}  // namespace verge::detail
