// verge/io/thread_pool.hpp -- threads that run what they are given.
//
//     verge::thread_pool pool(4);
//     verge::post(pool, [] { ... });
//     pool.join();                       // when all is done
//
// Also a context for timers and sockets, as io_context: its threads run the reactor then.
//
// Guarantees, under the names of the tests that hold them
//   JoinWaitsForAllWork           what is posted, what that posts, and pending timers.
//   StopDropsWhatHasNotBegun
//   ItsThreadsBlockAllSignals
//
// Thread safety: all members from any thread, but construction and destruction.
// Exceptions: construction throws std::system_error if the system refuses a thread.  A function
// that throws ends the program by std::terminate.

#pragma once

#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/loop_executor.hpp>
#include <verge/io/execution_context.hpp>

#include <cstddef>
#include <memory>

namespace verge {

class thread_pool : public execution_context {
public:
    template <class Allocator, bool Tracked>
    using basic_executor_type = detail::io::loop_executor<thread_pool, Allocator, Tracked>;
    using executor_type = basic_executor_type<std::allocator<void>, false>;

    /// Twice as many threads as there are processors.
    thread_pool();
    explicit thread_pool(std::size_t threads);
    /// stop() and join().
    ~thread_pool();
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    [[nodiscard]] executor_type get_executor() noexcept { return executor_type(*this); }
    /// Asio's other name for it.
    [[nodiscard]] executor_type executor() noexcept { return get_executor(); }

    /// Ends the threads as soon as they can; what has not begun is destroyed with the pool.
    void stop() noexcept { loop_.stop(); }
    /// The calling thread works too, until there is no more work or stop().
    void attach();
    /// Waits until there is no more work, or stop(), and the threads have ended.
    void join() noexcept;
    /// Asio's other name for it.
    void wait() noexcept { join(); }

    /// Of the library.
    static constexpr const char* tracking_name = "thread_pool";
    [[nodiscard]] detail::io::loop_core& loop() const noexcept { return loop_; }

private:
    struct threads;
    detail::io::loop_core& loop_;
    std::unique_ptr<threads> threads_;
};

}  // namespace verge
