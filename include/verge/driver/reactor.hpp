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
// It is the timer service, epoll, an eventfd that interrupts, and a timerfd: what an event loop
// stands on.  It is not a loop with handlers, threads and counts of work: that is io_context.
//
// How the kernel is told when to wake the waiter
//
//   hard   what the timerfd is set to: absolute nanoseconds of CLOCK_MONOTONIC.
//   soft   where the time-out of the epoll_pwait2 call ends that the waiter is in.  A near deadline
//          is told so, because the call is made anyway; a far one by the timerfd, because the
//          kernel may stretch a time-out by a thousandth of it.
//
//   Both are under one small mutex, held over timerfd_settime, so that two calls cannot swap.
//   An earlier deadline (wake_before) sets the timerfd only if it is before both.  The waiter
//   forgets both when it comes back, then collects: whoever arms in between is found by
//   prepare_wait().  Where timerfd_create is refused, wake_before() interrupts; where epoll_pwait2
//   is, the time-out is in milliseconds, rounded up.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/driver/timer_service.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <system_error>

struct epoll_event;
struct itimerspec;
struct timespec;

namespace verge {

/// What a reactor asks of the kernel; as the system calls of these names, always CLOEXEC and
/// non-blocking.  Tests refuse some.
class reactor_system {
public:
    virtual ~reactor_system() = default;
    virtual int epoll_create() noexcept;
    virtual int event_fd() noexcept;
    virtual int timer_fd(int clock) noexcept;
    virtual int set_timer(int fd, int flags, const itimerspec& when) noexcept;
    virtual long read_ticks(int fd) noexcept;
    virtual int wait(int epoll, epoll_event* events, int room, const timespec* timeout) noexcept;
    virtual int wait_ms(int epoll, epoll_event* events, int room, int timeout) noexcept;

    /// The kernel itself.
    static reactor_system& real() noexcept;
};

/// What can be waited for on a file descriptor.
enum class fd_event : std::uint8_t { read, write, error };

/// A clock other than CLOCK_MONOTONIC that a timerfd can follow.
enum class alarm_clock : std::uint8_t { realtime, boottime };

/// What becomes due at a time.  A user's object: it must live until it expired or was cancelled.
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

/// What a timer of the reactor carries, in 8 bytes: a reactor_timer, owned or not; or an object of
/// any kind, for the one function that the reactor was given for these.
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
    /// For a timer service: no code of a user's runs by either.
    [[nodiscard]] bool destroyed_silently() const noexcept { return (bits_ & owned) == 0; }
    [[nodiscard]] static bool moved_silently() noexcept { return true; }

    /// The plain object, or nullptr if it is none.
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

/// One attempt at a descriptor, made again at each event until it is done.  A user's object.
class fd_operation {
public:
    /// Whether it is done.  Called under the descriptor's lock; must neither block nor throw.
    using attempt_function = bool (*)(fd_operation& self);
    /// Called without a lock, once: it is done, or `error` says that it was cancelled.  `sink` is
    /// that of wait(), or nullptr if another call has ended it.
    using finish_function = void (*)(fd_operation& self, std::error_code error, void* sink);

    fd_operation(attempt_function on_event, finish_function at_end) noexcept
        : attempt_(on_event), finish_(at_end) {}
    bool attempt() { return attempt_(*this); }
    void finish(std::error_code error, void* sink) { finish_(*this, error, sink); }

    fd_operation* next = nullptr;  ///< Of the reactor, from start() to finish.

protected:
    ~fd_operation() = default;

private:
    attempt_function attempt_;
    finish_function finish_;
};

/// Told when an alarm_clock reaches its alarm, and when the date was set.  A user's object.
class clock_watcher {
public:
    virtual void clock_moved(void* sink) noexcept = 0;

protected:
    ~clock_watcher() = default;
};

/// Lets the kernel wake this thread punctually: lowers its timer slack when that first matters, and
/// restores it at the end of the scope.  On the stack of a thread that calls wait() again and
/// again.
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
///   AReusedFdGetsNoOldEvents       remove() ends what is pending; old events reach nobody.
///   EveryFdIsCloseOnExec
///
/// Thread safety: all members from any thread, but wait() from one at a time.
/// Exceptions: construction throws std::system_error naming the call; arm(), add() and wait_for()
/// throw std::bad_alloc, and add() std::system_error; then nothing was begun.
class reactor final : public timer_waker {
public:
    using timer_service = basic_timer_service<reactor_timer_ref>;

    struct options {
        std::size_t shards = timer_service_options{}.shards;
        reactor_system* system = nullptr;  ///< nullptr: the kernel.  Must outlive the reactor.
        bool locks = true;  ///< false: one thread at a time does anything at all with it.
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

    /// Waits until an operation is done, a timer expires, interrupt(), a signal, or `until`; not at
    /// all if `until` has passed.  Calls what was waited for, with `sink`.  Returns how many.
    std::size_t wait(time_point until, void* sink = nullptr, punctual_scope* punctual = nullptr);

    /// Ends the present wait(), or the next.
    void interrupt() noexcept;

    // ---- timers ---------------------------------------------------------------------------------

    /// The timers, on CLOCK_MONOTONIC.  prepare_wait() and collect() belong to wait().
    [[nodiscard]] timer_service& timers() noexcept { return timers_; }

    /// Calls `fn` in wait() when `deadline` has come.
    timer_id arm(time_point deadline, callback fn);

    /// Of the service: an earlier deadline than the waiter's.
    void wake_before(time_point deadline) noexcept override;

    /// Sets the alarm of a clock, in nanoseconds since its epoch.  False if the kernel refuses such
    /// a clock: then nobody is told.
    bool set_alarm(alarm_clock which, duration when) noexcept;

    /// The same in coarser units: hours::max() is duration::max().
    template <coarse_duration When>
    bool set_alarm(alarm_clock which, When when) noexcept {
        return set_alarm(which, saturated(when));
    }

    /// Tells `watcher` when the clock reaches its alarm or was set; nullptr ends that.
    void watch(alarm_clock which, clock_watcher* watcher) noexcept;

    // ---- file descriptors -----------------------------------------------------------------------

    /// What becomes of a descriptor in a forked child.
    enum class after_fork : std::uint8_t {
        shared,   ///< It stays the same file in both processes.
        renewed,  ///< It is an eventfd, and there is a new one of that number.
    };

    /// Registers a descriptor, for all events.  It stays the caller's: remove() before close().
    [[nodiscard]] descriptor* add(int fd, after_fork then = after_fork::shared);

    /// Ends what is pending with operation_canceled, and forgets the descriptor.
    void remove(descriptor* of) noexcept;

    /// Begins an operation: at once if it can be done now, and there is none before it.
    void start(descriptor& of, fd_event event, fd_operation& operation);

    /// Ends what is pending, with operation_canceled.  Returns how many.
    std::size_t cancel(descriptor& of, fd_event event) noexcept;
    std::size_t cancel(descriptor& of) noexcept;

    /// Ends what is pending on all descriptors.  Nobody else may use the reactor meanwhile.
    void cancel_all() noexcept;

    /// Ends one operation, if it is pending.
    bool cancel(descriptor& of, fd_event event, fd_operation& operation) noexcept;

    /// Calls f(std::error_code) when the descriptor is ready, or with operation_canceled.
    template <class F>
    void wait_for(descriptor& of, fd_event event, F&& f) {
        auto wait = std::make_unique<ready_wait<std::decay_t<F>>>(of, event, std::forward<F>(f));
        start(of, event, *wait.release());
    }

    /// Whether the event is there at this moment.
    [[nodiscard]] static bool is_ready(const descriptor& of, fd_event event) noexcept;
    [[nodiscard]] static int fd_of(const descriptor& of) noexcept;

    // ---- the rest -------------------------------------------------------------------------------

    /// In a forked child: makes new descriptors of its own, so that both go on apart.
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
