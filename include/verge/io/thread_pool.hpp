// verge/io/thread_pool.hpp -- a fixed number of threads that run functions.
//
//     verge::thread_pool pool(4);
//     verge::post(pool, [] { ... });
//     pool.join();                       // when all is done
//
// For handlers that block or compute.  Also a context for timers and sockets, as io_context is: its
// threads then run the reactor.  Functions run at the same time; a strand serialises them.
//
// Not a fiber scheduler: a function that blocks occupies its thread.  The number of threads is
// fixed, so functions that wait for each other can exhaust the pool.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/executor_test.cpp)
//   JoinWaitsForAllWork           what is posted, what that posts, and pending timers.
//   StopDropsWhatHasNotBegun
//   ItsThreadsBlockAllSignals     AThreadMayAttach
//
// Thread safety: all members from any thread, except construction and destruction.
//
// Exceptions: construction throws std::system_error if the system refuses a thread, and
// std::bad_alloc.  A function that throws on one of the pool's threads ends the program by
// std::terminate; on an attached thread the exception leaves attach().

#pragma once

#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/loop_executor.hpp>
#include <verge/io/execution_context.hpp>

#include <cstddef>
#include <memory>

namespace verge {

/// Threads named "verge-pool" that run one loop.  Timers and sockets that use it must be destroyed
/// before it.
class thread_pool : public execution_context {
public:
    /// Its executor, as io_context's.
    template <class Allocator, bool Tracked>
    using basic_executor_type = detail::io::loop_executor<thread_pool, Allocator, Tracked>;
    using executor_type = basic_executor_type<std::allocator<void>, false>;

    /// Starts two threads per processor, or `threads` of them.  With 0 only attached threads run
    /// functions.
    thread_pool();
    explicit thread_pool(std::size_t threads);
    /// stop() and join(); then destroys the functions that have not run.  Not on one of its
    /// threads.
    ~thread_pool();
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    /// The executor that runs functions on this pool.
    [[nodiscard]] executor_type get_executor() noexcept { return executor_type(*this); }
    /// Asio's other name for it.
    [[nodiscard]] executor_type executor() noexcept { return get_executor(); }

    /// Makes the threads end after the function they are in.  Functions that have not begun are
    /// destroyed with the pool.
    void stop() noexcept { loop_.stop(); }
    /// The calling thread runs functions, too, until there is no work left or stop().
    void attach();
    /// Waits until there is no work left, or until stop(), and then until the threads have ended.
    /// Work that is posted afterwards does not run.  Not on one of the pool's threads, which would
    /// wait for itself.
    void join() noexcept;
    /// Asio's other name for it.
    void wait() noexcept { join(); }

    /// For the library: the name in handler tracking, and the loop.
    static constexpr const char* tracking_name = "thread_pool";
    [[nodiscard]] detail::io::loop_core& loop() const noexcept { return loop_; }

private:
    struct threads;
    detail::io::loop_core& loop_;
    std::unique_ptr<threads> threads_;
};

}  // namespace verge
