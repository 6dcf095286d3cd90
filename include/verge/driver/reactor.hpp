// verge/driver/reactor.hpp -- one thread at a time waits for file descriptors, timers and wake-ups.
//
//     verge::reactor reactor;                                     // examples/own_reactor.cpp
//
//     reactor.arm(deadline, [] { ... });                          // any thread
//     auto* in = reactor.add(fd);                                 // any thread
//     reactor.wait_for(*in, verge::fd_event::read, [](std::error_code error) { ... });
//
//     for (;;) reactor.wait(verge::never);                        // the loop's thread
//
// It combines the timer service, epoll, an eventfd for interrupts, and a timerfd: the base of an
// event loop.  It is not a loop with handlers, threads and work counts: that is io_context.
//
// How the waiter programs its wake-up
//
//   hard   what the timerfd is set to: absolute nanoseconds of CLOCK_MONOTONIC.
//   soft   the end of the time-out of the present epoll_pwait2 call.  A near deadline is passed as
//          the time-out, because the call is made anyway; a far one by the timerfd, because the
//          kernel may extend a time-out by 1/1000 of it.
//
//   Both are guarded by a mutex that is held across timerfd_settime, so that two calls cannot be
//   reordered.  An earlier deadline (wake_before) sets the timerfd only if it is before both.  The
//   waiter resets both when it returns, then collects: a timer armed in between is found by
//   prepare_wait().  Without timerfd_create, wake_before() interrupts; without epoll_pwait2, the
//   time-out is in milliseconds, rounded up.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/driver/timer_service.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

namespace verge {

/// The events of a file descriptor.
enum class fd_event : std::uint8_t { read, write, error };

/// A clock other than CLOCK_MONOTONIC that a timerfd can follow.
enum class alarm_clock : std::uint8_t { realtime, boottime };

/// A timer object that the user owns: it must live until it has expired or was cancelled.
class reactor_timer {
public:
    /// Called by wait() with its `sink`; must not throw.
    using function = void (*)(reactor_timer& self, timer_id id, void* sink);
    explicit reactor_timer(function expired) noexcept : expired_(expired) {}

    void expire(timer_id id, void* sink) { expired_(*this, id, sink); }

protected:
    ~reactor_timer() = default;

private:
    function expired_;
};

/// The payload of a reactor's timer, in 8 bytes: a reactor_timer, owned or not; or a pointer to any
/// object, which is passed to options::expired.
class reactor_timer_ref {
public:
    struct plain {
        void* object;  ///< Aligned to 4 at least.
    };
    reactor_timer_ref(plain of) noexcept  // NOLINT: implicit, as a reference is
        : bits_(reinterpret_cast<std::uintptr_t>(of.object) | is_plain) {}
    reactor_timer_ref(reactor_timer& timer) noexcept  // NOLINT: implicit, as a reference is
        : bits_(reinterpret_cast<std::uintptr_t>(&timer)) {}
    /// One that calls `fn`, and is destroyed with this.  Throws std::bad_alloc.
    explicit reactor_timer_ref(callback&& fn);
    reactor_timer_ref(reactor_timer_ref&& other) noexcept
        : bits_(std::exchange(other.bits_, std::uintptr_t{0})) {}
    reactor_timer_ref& operator=(reactor_timer_ref&&) = delete;
    reactor_timer_ref(const reactor_timer_ref&) = delete;
    reactor_timer_ref& operator=(const reactor_timer_ref&) = delete;
    ~reactor_timer_ref() {
        if ((bits_ & owned) != 0) destroy();
    }
    /// For the timer service: whether destroying and moving it run no user code.
    [[nodiscard]] bool has_trivial_destroy() const noexcept { return (bits_ & owned) == 0; }
    [[nodiscard]] static bool has_trivial_move() noexcept { return true; }

    /// The plain object, or nullptr if it holds a reactor_timer.
    [[nodiscard]] void* plain_object() const noexcept {
        return (bits_ & is_plain) != 0 ? reinterpret_cast<void*>(bits_ & ~is_plain) : nullptr;
    }
    [[nodiscard]] reactor_timer& timer() const noexcept {
        return *reinterpret_cast<reactor_timer*>(bits_ & ~owned);
    }

private:
    static constexpr std::uintptr_t owned = 1;
    static constexpr std::uintptr_t is_plain = 2;
    void destroy() noexcept;
    std::uintptr_t bits_;
};

/// A non-blocking operation on a descriptor, retried at each event until it is done.  Owned by the
/// user.
class fd_operation {
public:
    /// Whether it is done.  Called under the descriptor's lock; must neither block nor throw.
    using attempt_function = bool (*)(fd_operation& self);
    /// Called once, without a lock: it is done, or `error` says that it was cancelled.  `sink` is
    /// that of wait(), or nullptr if another member function ended it.
    using finish_function = void (*)(fd_operation& self, std::error_code error, void* sink);

    fd_operation(attempt_function on_event, finish_function at_end) noexcept
        : attempt_(on_event), finish_(at_end) {}
    bool attempt() { return attempt_(*this); }
    void finish(std::error_code error, void* sink) { finish_(*this, error, sink); }

    fd_operation* next = nullptr;  ///< Used by the reactor, from start() to finish().

protected:
    ~fd_operation() = default;

private:
    attempt_function attempt_;
    finish_function finish_;
};

/// Notified when an alarm_clock reaches its alarm, and when the date was set.  Owned by the user.
class clock_watcher {
public:
    virtual void clock_moved(void* sink) noexcept = 0;

protected:
    ~clock_watcher() = default;
};

/// Lowers the thread's timer slack at the first near deadline, and restores it at the end of the
/// scope.  For the stack of a thread that calls wait() in a loop.
class punctual_scope {
public:
    punctual_scope() noexcept = default;
    ~punctual_scope();
    punctual_scope(const punctual_scope&) = delete;
    punctual_scope& operator=(const punctual_scope&) = delete;
    void begin() noexcept;

private:
    unsigned long before_ = 0;  // 0: nothing to restore
};

struct reactor_stats {
    std::uint64_t waits = 0;
    std::uint64_t interrupts = 0;
    std::uint64_t timer_sets = 0;

    template <class Visitor>
    void visit(Visitor&& v) const {
        v("waits", stat_kind::counter, waits, "times the kernel was asked for events");
        v("interrupts", stat_kind::counter, interrupts, "times the waiter was interrupted");
        v("timer_sets", stat_kind::counter, timer_sets, "calls of timerfd_settime");
    }
};

/// Guarantees, each with a test of that name in tests/unit/driver/reactor_test.cpp:
///   NeverExpiresEarly              a timer expires at or after its deadline on CLOCK_MONOTONIC.
///   EarlierDeadlineEndsTheWait     arming from another thread wakes a blocked waiter in time.
///   InterruptIsNotLost             an interrupt() before a wait() ends that wait at once.
///   WorksWithoutTimerfd            and WorksWithoutTimerfdAndPwait2: refused calls are replaced.
///   CancelledOperationsEndOnce     each operation finishes once, done or operation_canceled.
///   AReusedFdGetsNoOldEvents       remove() ends what is pending; old events are discarded.
///   EveryFdIsCloseOnExec
///
/// Thread safety: all members from any thread, but wait() from one thread at a time.
/// Exceptions: construction throws std::system_error naming the call; arm(), add() and wait_for()
/// throw std::bad_alloc, and add() std::system_error; then nothing was started.
class reactor final : public timer_waker {
public:
    using timer_service = basic_timer_service<reactor_timer_ref>;

    struct options {
        std::size_t shards = timer_service_options{}.shards;
        bool locks = true;  ///< false: no two threads ever use the reactor concurrently.
        /// Called by wait() for plain objects whose time has come; must not throw.
        void (*expired)(void* object, timer_id id, time_point deadline, void* sink) = nullptr;
    };

    /// A file descriptor that is registered here.
    class descriptor;

    reactor();
    explicit reactor(const options& opts);
    ~reactor() override;
    reactor(const reactor&) = delete;
    reactor& operator=(const reactor&) = delete;

    // ---- the waiter -----------------------------------------------------------------------------

    /// Waits until an operation is done, a timer expires, interrupt(), a signal, or `until`; does
    /// not block if `until` has passed.  Finishes what is ready, with `sink`.  Returns how many.
    std::size_t wait(time_point until, void* sink = nullptr, punctual_scope* punctual = nullptr);

    /// Ends the present wait(), or the next one.
    void interrupt() noexcept;

    // ---- timers ---------------------------------------------------------------------------------

    /// The timers, on CLOCK_MONOTONIC.  prepare_wait() and collect() belong to wait().
    [[nodiscard]] timer_service& timers() noexcept { return timers_; }

    /// Calls `fn` in wait() at `deadline`.
    timer_id arm(time_point deadline, callback fn);

    /// Called by the timer service: a timer was armed for before the end of the present wait.
    void wake_before(time_point deadline) noexcept override;

    /// Sets the alarm of a clock, in nanoseconds since its epoch.  False if the kernel refuses such
    /// a timerfd: then the watcher is never notified.
    bool set_alarm(alarm_clock which, duration when) noexcept;

    /// The same in other units: hours::max() is duration::max().
    template <other_duration When>
    bool set_alarm(alarm_clock which, When when) noexcept {
        return set_alarm(which, saturated(when));
    }

    /// Notifies `watcher` when the clock reaches its alarm or was set; nullptr ends that.
    void watch(alarm_clock which, clock_watcher* watcher) noexcept;

    // ---- file descriptors -----------------------------------------------------------------------

    /// What restart_after_fork() does with a descriptor.
    enum class after_fork : std::uint8_t {
        shared,   ///< Nothing: it is the same file in both processes.
        renewed,  ///< It is an eventfd: replaces it with a new one under the same number.
    };

    /// Registers a descriptor, for all events.  The caller keeps it: remove() before close().
    [[nodiscard]] descriptor* add(int fd, after_fork then = after_fork::shared);

    /// Ends pending operations with operation_canceled, and unregisters the descriptor.
    void remove(descriptor* of) noexcept;

    /// Starts an operation.  Attempts it at once if no other is pending for this event.
    void start(descriptor& of, fd_event event, fd_operation& operation);

    /// Ends pending operations with operation_canceled.  Returns how many.
    std::size_t cancel(descriptor& of, fd_event event) noexcept;
    std::size_t cancel(descriptor& of) noexcept;

    /// Ends pending operations on all descriptors.  No other thread may use the reactor meanwhile.
    void cancel_all() noexcept;

    /// Ends one operation, if it is pending.
    bool cancel(descriptor& of, fd_event event, fd_operation& operation) noexcept;

    /// Calls f(std::error_code) when the descriptor is ready, or with operation_canceled.
    template <class F>
    void wait_for(descriptor& of, fd_event event, F&& f) {
        auto wait = std::make_unique<ready_wait<std::decay_t<F>>>(of, event, std::forward<F>(f));
        start(of, event, *wait.release());
    }

    /// Whether the descriptor is ready for the event, by poll().
    [[nodiscard]] static bool is_ready(const descriptor& of, fd_event event) noexcept;
    [[nodiscard]] static int fd_of(const descriptor& of) noexcept;

    // ---- the rest -------------------------------------------------------------------------------

    /// In a forked child: opens new kernel objects, so that parent and child are independent.
    void restart_after_fork();

    [[nodiscard]] reactor_stats stats() const noexcept;

private:
    class core;

    template <class F>
    struct ready_wait final : fd_operation {
        ready_wait(descriptor& d, fd_event e, F&& f)
            : fd_operation(&attempt_it, &finish_it), of(d), event(e), fn(std::move(f)) {}
        ready_wait(descriptor& d, fd_event e, const F& f)
            : fd_operation(&attempt_it, &finish_it), of(d), event(e), fn(f) {}
        static bool attempt_it(fd_operation& self) {
            auto& wait = static_cast<ready_wait&>(self);
            return is_ready(wait.of, wait.event);
        }
        static void finish_it(fd_operation& self, std::error_code error, void*) {
            const std::unique_ptr<ready_wait> wait(&static_cast<ready_wait&>(self));
            wait->fn(error);
        }
        descriptor& of;
        fd_event event;
        F fn;
    };

    std::size_t expire_due(void* sink);

    const decltype(options::expired) expired_;
    std::unique_ptr<core> core_;
    timer_service timers_;
};

}  // namespace verge
