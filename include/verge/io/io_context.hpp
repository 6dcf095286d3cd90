// verge/io/io_context.hpp -- the event loop: runs handlers in the threads that call run().
//
//     verge::io_context io;                                       // examples/loop_timer.cpp
//     verge::steady_timer timer(io, 50ms);
//     timer.async_wait([](std::error_code error) { ... });
//     verge::post(io, [] { ... });
//     io.run();                                                   // until there is no work left
//
// Names and meaning are those of Asio's io_context; docs/from_asio.md lists the differences.  It
// has no threads of its own.  Work is a queued function, a pending operation, or a work guard.
//
// Not for functions that are called at given times and nothing else: a timer_thread is simpler.
// Not for handlers that block: give them a thread_pool.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/io_context_test.cpp)
//   RunReturnsTheNumberOfHandlers      as do run_one, run_for, run_until, poll and poll_one.
//   RunReturnsWhenThereIsNoWork        and then stopped() is true until restart().
//   PostNeverNests                     dispatch does, inside the loop: DispatchNestsInside.
//   HandlersOfOneThreadRunInOrder      in which they were posted, if one thread runs the loop.
//   AnExceptionLeavesRun               and run() may be called again, with nothing lost.
//   DestructionDestroysHandlers        without running them; also what their destructors post.
//   APostMayReturnAfterTheEnd          after run() has returned the context may be destroyed, even
//                                      if the post of the last function has not returned; this also
//                                      holds for the reset of the last guard, and for stop()
//                                      (last_call_test.cpp).
//   ASteadyStateAllocatesNothing       an operation's memory is reused by its thread.
//
// Thread safety: every member from any thread, except restart() while a thread is in run(), and
// construction and destruction, which need exclusive access.  With hint 1 only one thread at a time
// may run the loop; with concurrency_hint_unsafe one thread at a time may use the context and its
// objects.
//
// Exceptions: the run functions throw what a handler throws.  post, dispatch and defer throw
// std::bad_alloc, and what the handler's move throws; then nothing was posted.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/loop_executor.hpp>
#include <verge/io/execution_context.hpp>
#include <verge/io/wait_traits.hpp>

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>

namespace verge {

/// Concurrency hints of the constructor.  Any number of threads may run the loop: the default.
/// With 1, one thread at a time runs the loop, and others may post to it: posting is lock-free.
inline constexpr int concurrency_hint_safe = std::numeric_limits<int>::max();
inline constexpr int concurrency_hint_unsafe = -1;  ///< One thread does everything: no locks.

/// An event loop.  Timers and sockets that use it must be destroyed before it.
class io_context : public execution_context {
public:
    /// Its executor: 8 bytes.  `Tracked` ones count as work; `Allocator` allocates what execute()
    /// stores.
    template <class Allocator, bool Tracked>
    using basic_executor_type = detail::io::loop_executor<io_context, Allocator, Tracked>;
    using executor_type = basic_executor_type<std::allocator<void>, false>;
    using count_type = std::size_t;
    class strand;  // verge/io/strand.hpp

    /// A loop without work.  With an allocator, the memory of its services comes from there.
    /// Descriptors (epoll, timerfd, eventfd) are opened by the first timer or socket.  Throws
    /// std::bad_alloc.
    io_context() : io_context(concurrency_hint_safe) {}
    explicit io_context(int concurrency_hint)
        : loop_(make_service<detail::io::loop_core>(*this, mode_of(concurrency_hint))) {}
    template <class Allocator>
    io_context(std::allocator_arg_t tag, const Allocator& allocator,
               int concurrency_hint = concurrency_hint_safe)
        : execution_context(tag, allocator),
          loop_(make_service<detail::io::loop_core>(*this, mode_of(concurrency_hint))) {}

    /// Destroys the handlers that have not run, without calling them, and then the services.  No
    /// thread may be in a run function.
    ~io_context() { shutdown(); }
    io_context(const io_context&) = delete;
    io_context& operator=(const io_context&) = delete;

    /// The executor that runs functions in this loop.
    [[nodiscard]] executor_type get_executor() noexcept { return executor_type(*this); }

    /// Runs handlers until there is no work left, or until stop().  Returns how many it has run.
    /// The calling thread sleeps in the kernel while no handler is ready.  From the first near
    /// deadline until run() returns the thread's timer slack is 1 ns.
    count_type run() { return loop_.run(most, never); }
    /// Runs one handler, waiting for it.  Returns 1; 0 if there is no work left, or after stop().
    count_type run_one() { return loop_.run(1, never); }

    /// As run() and run_one(), but at most until a time.  A timer that expires exactly then is run.
    /// A clock other than the steady one is read again after at most a second, so that setting it
    /// takes effect.
    template <class Rep, class Period>
    count_type run_for(const std::chrono::duration<Rep, Period>& time) {
        return loop_.run(most, after(time));
    }
    template <class Clock, class Duration>
    count_type run_until(const std::chrono::time_point<Clock, Duration>& time) {
        return run_until_time(time, most);
    }
    template <class Rep, class Period>
    count_type run_one_for(const std::chrono::duration<Rep, Period>& time) {
        return loop_.run(1, after(time));
    }
    template <class Clock, class Duration>
    count_type run_one_until(const std::chrono::time_point<Clock, Duration>& time) {
        return run_until_time(time, 1);
    }

    /// Runs the handlers that are ready, or one of them, without waiting.  Returns how many.
    count_type poll() { return loop_.poll(most); }
    count_type poll_one() { return loop_.poll(1); }

    /// Makes all run functions return after the handler they are in.  Handlers that have not run
    /// stay queued.
    void stop() noexcept { loop_.stop(); }
    /// Whether stop() was called, or the last run function found no work left.
    [[nodiscard]] bool stopped() const noexcept { return loop_.stopped(); }
    /// Makes stopped() false, so that the run functions run again.  Not while a thread is in one of
    /// them.
    void restart() noexcept { loop_.restart(); }

    /// For the library: the name in handler tracking, and the loop.
    static constexpr const char* tracking_name = "io_context";
    [[nodiscard]] detail::io::loop_core& loop() const noexcept { return loop_; }

private:
    static constexpr std::size_t most = std::numeric_limits<std::size_t>::max();

    static detail::io::threading mode_of(int hint) noexcept {
        if (hint == concurrency_hint_unsafe) return detail::io::threading::unsafe;
        return hint == 1 ? detail::io::threading::single : detail::io::threading::safe;
    }

    template <class Rep, class Period>
    static time_point after(const std::chrono::duration<Rep, Period>& time) {
        return deadline_after(steady_source{}.now(), saturated_to<duration>(time));
    }

    template <class Clock, class Duration>
    count_type run_until_time(const std::chrono::time_point<Clock, Duration>& time,
                              std::size_t limit) {
        if constexpr (std::is_same_v<Clock, clock>) {
            return loop_.run(limit, std::chrono::ceil<duration>(time));
        } else {
            // Another clock may run at another rate, and jump: it is read at least once a second.
            using wide = std::chrono::duration<long double>;
            count_type total = 0;
            for (;;) {
                const auto now = Clock::now();
                if (time <= now) return total;
                const wide left = wide(time.time_since_epoch()) - wide(now.time_since_epoch());
                total += loop_.run(limit - total, left > wide(1) ? after(std::chrono::seconds(1))
                                                                 : after(time - now));
                if (total == limit || stopped()) return total;
            }
        }
    }

    detail::io::loop_core& loop_;
};

}  // namespace verge
