// verge/io/signal_set.hpp -- signals as asynchronous operations.
//
//     verge::signal_set signals(io, SIGINT, SIGTERM);
//     signals.async_wait([&](std::error_code error, int number) { io.stop(); });
//
// A signal that nobody waits for yet is kept until somebody does.  Each set that has the signal
// gets it.  While a set has a signal, the library's handler is installed for it, and the one before
// comes back when the last set gives it up.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/signal_set_test.cpp)
//   ASignalCompletesAWait      ASignalIsKeptUntilSomebodyWaits      EverySetGetsIt
//   TheOldHandlerComesBack     CancelEndsAWait
//
// Thread safety: none, one set; signals may come in any thread.
// Exceptions: construction and add throw std::system_error.

#pragma once

#include <verge/io/posix/descriptor.hpp>

#include <memory>
#include <utility>

namespace verge {

namespace detail {

/// A pipe that the signal handler writes into, and the signals of one set.
class signal_source {
public:
    explicit signal_source(scheduler& loop);
    ~signal_source();
    signal_source(const signal_source&) = delete;
    signal_source& operator=(const signal_source&) = delete;

    std::error_code add(int number) noexcept;
    std::error_code remove(int number) noexcept;
    void clear() noexcept;
    [[nodiscard]] io_handle& handle() noexcept { return handle_; }

private:
    struct channel;
    channel* channel_;  // of a pool that lives as long as the process: a handler may still write
    io_handle handle_;
};

struct signal_work {
    static constexpr const char* name = "async_wait";
    int fd;
    int number = 0;
    bool attempt(std::error_code& error);
    template <class Home, class Handler>
    void call(Home& home, Handler& handler, std::error_code error) const {
        home(handler, error, error ? 0 : number);
    }
};

}  // namespace detail

template <class Executor = any_io_executor>
class basic_signal_set {
public:
    using executor_type = Executor;

    explicit basic_signal_set(const Executor& ex)
        : executor_(ex),
          source_(std::make_unique<detail::signal_source>(detail::scheduler_of(ex))) {}
    template <detail::context_with_executor Context, class... Numbers>
    explicit basic_signal_set(Context& context, Numbers... numbers)
        : basic_signal_set(Executor(context.get_executor())) {
        (add(numbers), ...);
    }

    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }

    void add(int number) {
        if (const std::error_code e = source_->add(number)) throw std::system_error(e, "sigaction");
    }
    void add(int number, std::error_code& error) { error = source_->add(number); }
    void remove(int number) { source_->remove(number); }
    void clear() { source_->clear(); }
    /// Ends pending waits with operation_aborted.
    void cancel() {
        detail::track_operation({"signal_set", &source_->handle(), "cancel"});
        source_->handle().cancel();
    }

    /// Calls a handler, void(error_code, int), with the next signal.
    template <class Token = deferred_t>
    auto async_wait(Token&& token = Token()) {
        return async_initiate<Token, void(std::error_code, int)>(
            initiate_wait{executor_, &source_->handle()}, token);
    }

private:
    struct initiate_wait {
        using executor_type = Executor;
        [[nodiscard]] executor_type get_executor() const noexcept { return ex; }
        template <class Handler>
        void operator()(Handler&& handler) const {
            std::decay_t<Handler> own(std::forward<Handler>(handler));
            detail::begin_io(ex, *to, "signal_set", fd_event::read, detail::signal_work{to->fd()},
                             own);
        }
        Executor ex;
        detail::io_handle* to;
    };

    Executor executor_;
    std::unique_ptr<detail::signal_source> source_;
};

using signal_set = basic_signal_set<>;

}  // namespace verge
