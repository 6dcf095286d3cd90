// verge/io/signal_set.hpp -- signals as asynchronous operations.
//
//     verge::signal_set signals(io, SIGINT, SIGTERM);
//     signals.async_wait([&](std::error_code error, int number) { io.stop(); });
//
// A wait is for one signal.  A program that serves several begins the next wait in the handler:
//
//     void next() {
//         signals.async_wait([this](std::error_code error, int number) {
//             if (error) return;                      // cancelled
//             if (number == SIGHUP) reload();
//             if (number == SIGTERM) return io.stop();
//             next();                                 // those that arrived meanwhile are queued
//         });
//     }
//
// A signal completes all pending waits of each set that contains it: they get the first signal that
// arrives.  A signal that arrives while no wait is pending is queued, and the next wait gets it:
// the lowest number first, each as often as it arrived.  While a set contains a signal, the
// library's signal handler is installed for it; the previous action is restored when the last set
// removes the signal.  After a fork, reported by io_context::notify_fork, each process has its own
// queue.
//
// For signals of the process: SIGINT, SIGTERM, SIGHUP, SIGCHLD.  Not for those that a thread raises
// by an error (SIGSEGV, SIGFPE): their handler must not return.  The library's own threads block
// all signals, so at least one thread of the program must not.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/signal_set_test.cpp)
//   ASignalCompletesAWait      ASignalIsKeptUntilSomebodyWaits      EverySetGetsIt
//   OneSignalCompletesAllWaitsOfASet     QueuedSignalsComeInTheOrderOfTheirNumbers
//   AWaitGetsTheFirstThatComes           FlagsAreThoseOfSigaction
//   ManyOfOneSignalKeepNoOtherOut        RemoveDropsWhatIsQueued
//   AForkedChildHasSignalsOfItsOwn       TheOldHandlerComesBack     CancelEndsAWait
//
// Thread safety: one set, one thread at a time; different sets are independent.  A signal may be
// delivered to any thread.
//
// Exceptions: construction, add and remove throw std::system_error; construction and async_wait
// throw std::bad_alloc.

#pragma once

#include <verge/io/detail/loop_access.hpp>
#include <verge/io/posix/descriptor.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include <signal.h>

namespace verge {

/// The names that all signal sets have.
class signal_set_base {
public:
    /// Flags of sigaction(2).  They are a property of the process, so all sets that contain a
    /// signal must agree on them: the first set that asks for flags other than dont_care decides.
    enum class flags : int {
        none = 0,
        restart = SA_RESTART,
        no_child_stop = SA_NOCLDSTOP,
        no_child_wait = SA_NOCLDWAIT,
        dont_care = -1,  ///< Those of the other sets; `none` if there is no other.
    };
    /// Asio's other name for it.
    using flags_t = flags;

    friend constexpr flags operator|(flags a, flags b) noexcept {
        return static_cast<flags>(static_cast<int>(a) | static_cast<int>(b));
    }
    friend constexpr flags operator&(flags a, flags b) noexcept {
        return static_cast<flags>(static_cast<int>(a) & static_cast<int>(b));
    }

protected:
    ~signal_set_base() = default;
};

namespace detail::io {

/// The queue of one set: the signal handler counts in it and wakes the loop through it.
struct signal_channel;

/// One wait: it takes the next signal of its channel, or shares the one that was taken last.
struct signal_work {
    static constexpr const char* name = "async_wait";
    signal_channel* channel;
    std::uint64_t began = 0;     // how many signals were taken when the wait began
    std::uint32_t began_at = 0;  // how many had arrived by then
    int number = 0;
    std::error_code begin(const io_handle&) noexcept;
    bool attempt(std::error_code& error);
    template <class Home, class Handler>
    void call(Home& home, Handler& handler, std::error_code error) const {
        home(handler, error, error ? 0 : number);
    }
};

/// The channel of one set, and its registration with the loop.
class signal_source {
public:
    explicit signal_source(loop_core& loop);
    ~signal_source();
    signal_source(const signal_source&) = delete;
    signal_source& operator=(const signal_source&) = delete;

    std::error_code add(int number, signal_set_base::flags how) noexcept;
    std::error_code remove(int number) noexcept;
    void clear() noexcept;
    [[nodiscard]] signal_work wait() noexcept { return {channel_}; }
    [[nodiscard]] io_handle& handle() noexcept { return handle_; }

private:
    signal_channel* channel_;  // of a pool that lives as long as the process
    io_handle handle_;
};

}  // namespace detail::io

/// A set of signals.  The destructor removes them all; pending waits complete with
/// operation_aborted.  The execution context of its executor must outlive it.
template <class Executor = any_io_executor>
class basic_signal_set : public signal_set_base {
public:
    using executor_type = Executor;

    /// The same set with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_signal_set<Other>;
    };

    /// On an executor, or on the executor of a context, with any number of signals.  A set uses one
    /// eventfd, which is kept for the next set when it is destroyed.
    template <std::same_as<int>... Numbers>
    explicit basic_signal_set(const Executor& ex, Numbers... numbers)
        : executor_(ex),
          source_(std::make_unique<detail::io::signal_source>(detail::io::loop_of(ex))) {
        (add(numbers), ...);
    }
    template <detail::io::context_with_executor Context, std::same_as<int>... Numbers>
    explicit basic_signal_set(Context& context, Numbers... numbers)
        : basic_signal_set(Executor(context.get_executor()), numbers...) {}

    /// The executor that handlers without one of their own are called by.
    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }

    /// Adds a signal, and installs the handler for it.  No effect if the set contains it, whatever
    /// the flags.  error::invalid_argument: there is no such signal, it cannot be handled, or
    /// another set has asked for other flags.
    void add(int number, flags how = flags::dont_care) { check(source_->add(number, how), "add"); }
    void add(int number, std::error_code& error) { add(number, flags::dont_care, error); }
    void add(int number, flags how, std::error_code& error) { error = source_->add(number, how); }
    /// Removes a signal, and discards what is queued of it.  No effect if the set does not contain
    /// it.
    void remove(int number) { check(source_->remove(number), "remove"); }
    void remove(int number, std::error_code& error) { error = source_->remove(number); }
    /// Removes all signals.
    void clear() { source_->clear(); }
    void clear(std::error_code& error) {
        clear();
        error.clear();
    }
    /// Ends pending waits with operation_aborted.  Queued signals stay.
    void cancel() {
        detail::io::track_operation({"signal_set", &source_->handle(), "cancel"});
        source_->handle().cancel();
    }
    void cancel(std::error_code& error) {
        cancel();
        error.clear();
    }

    /// Waits for the next signal, or takes one that is queued: void(error_code, int number).
    template <class Token = default_completion_token_t<Executor>>
    auto async_wait(Token&& token = Token()) {
        return async_initiate<Token, void(std::error_code, int)>(
            initiate_wait{executor_, source_.get()}, token);
    }

private:
    struct initiate_wait {
        using executor_type = Executor;
        [[nodiscard]] executor_type get_executor() const noexcept { return ex; }
        template <class Handler>
        void operator()(Handler&& handler) const {
            std::decay_t<Handler> own(std::forward<Handler>(handler));
            detail::io::begin_io(ex, from->handle(), "signal_set", fd_event::read, from->wait(),
                                 own);
        }
        Executor ex;
        detail::io::signal_source* from;
    };

    static void check(std::error_code error, const char* what) {
        if (error) throw std::system_error(error, what);
    }

    Executor executor_;
    std::unique_ptr<detail::io::signal_source> source_;
};

/// A signal set on any executor.
using signal_set = basic_signal_set<>;

}  // namespace verge
