// verge/io/signal_set.hpp -- signals as asynchronous operations.
//
//     verge::signal_set signals(io, SIGINT, SIGTERM);
//     signals.async_wait([&](std::error_code error, int number) { io.stop(); });
//
// A signal completes all waits of each set that has it: those get the first one that comes.  One
// that comes while nobody waits is kept, and the next wait gets it: the lowest number first, each
// as often as it came.  While a set has a signal, the library's handler is installed for it, and
// the one before comes back when the last set gives it up.  After a fork, told by
// io_context::notify_fork, each process has its own.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/signal_set_test.cpp)
//   ASignalCompletesAWait      ASignalIsKeptUntilSomebodyWaits      EverySetGetsIt
//   OneSignalCompletesAllWaitsOfASet     QueuedSignalsComeInTheOrderOfTheirNumbers
//   AWaitGetsTheFirstThatComes           FlagsAreThoseOfSigaction
//   ManyOfOneSignalKeepNoOtherOut        RemoveDropsWhatIsQueued
//   AForkedChildHasSignalsOfItsOwn       TheOldHandlerComesBack     CancelEndsAWait
//
// Thread safety: none, one set; signals may come in any thread.
// Exceptions: construction, add and remove throw std::system_error.

#pragma once

#include <verge/io/detail/loop_access.hpp>
#include <verge/io/posix/descriptor.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include <signal.h>

namespace verge {

/// What all signal sets have in common.
class signal_set_base {
public:
    /// Of sigaction(2), by whoever is the first to have the signal and to care.
    enum class flags : int {
        none = 0,
        restart = SA_RESTART,
        no_child_stop = SA_NOCLDSTOP,
        no_child_wait = SA_NOCLDWAIT,
        dont_care = -1,  ///< As the others want it; `none` if there are none.
    };
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

/// What the signal handler counts in and wakes, for one set.
struct signal_channel;

struct signal_work {
    static constexpr const char* name = "async_wait";
    signal_channel* channel;
    std::uint64_t began = 0;     // how many signals had been taken then
    std::uint32_t began_at = 0;  // and how many had come
    int number = 0;
    std::error_code begin(const io_handle&) noexcept;
    bool attempt(std::error_code& error);
    template <class Home, class Handler>
    void call(Home& home, Handler& handler, std::error_code error) const {
        home(handler, error, error ? 0 : number);
    }
};

/// The signals of one set.
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

template <class Executor = any_io_executor>
class basic_signal_set : public signal_set_base {
public:
    using executor_type = Executor;

    /// The same set with another executor.
    template <class Other>
    struct rebind_executor {
        using other = basic_signal_set<Other>;
    };

    /// Of an executor or a context, and of any number of signals.
    template <std::same_as<int>... Numbers>
    explicit basic_signal_set(const Executor& ex, Numbers... numbers)
        : executor_(ex),
          source_(std::make_unique<detail::io::signal_source>(detail::io::loop_of(ex))) {
        (add(numbers), ...);
    }
    template <detail::io::context_with_executor Context, std::same_as<int>... Numbers>
    explicit basic_signal_set(Context& context, Numbers... numbers)
        : basic_signal_set(Executor(context.get_executor()), numbers...) {}

    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }

    /// Twice is once, whatever the flags.  invalid_argument: no such signal, or another set wants
    /// other flags.
    void add(int number, flags how = flags::dont_care) { check(source_->add(number, how), "add"); }
    void add(int number, std::error_code& error) { add(number, flags::dont_care, error); }
    void add(int number, flags how, std::error_code& error) { error = source_->add(number, how); }
    /// Drops what is queued of this signal.
    void remove(int number) { check(source_->remove(number), "remove"); }
    void remove(int number, std::error_code& error) { error = source_->remove(number); }
    void clear() { source_->clear(); }
    void clear(std::error_code& error) {
        clear();
        error.clear();
    }
    /// Ends pending waits with operation_aborted.
    void cancel() {
        detail::io::track_operation({"signal_set", &source_->handle(), "cancel"});
        source_->handle().cancel();
    }
    void cancel(std::error_code& error) {
        cancel();
        error.clear();
    }

    /// Calls a handler, void(error_code, int), with the next signal.
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

using signal_set = basic_signal_set<>;

}  // namespace verge
