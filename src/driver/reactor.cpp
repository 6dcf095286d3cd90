// src/driver/reactor.cpp -- the reactor on epoll, eventfd and timerfd.

#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/optional_lock.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/driver/detail/wake_lead.hpp>
#include <verge/driver/reactor.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

namespace verge {

namespace os = detail::os;

namespace {

// A deadline nearer than this is passed as a time-out: the kernel may extend one by 1/1000 (1/200
// for a niced thread), which is then a few microseconds.
constexpr duration near = std::chrono::milliseconds(5);
// How many timers one wait() expires before it returns, so that the work they made ready can run.
constexpr std::size_t expiry_budget = 1024;

timespec to_timespec(duration d) noexcept {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(d);
    return {static_cast<time_t>(seconds.count()), static_cast<long>((d - seconds).count())};
}

[[noreturn]] void refuse(const char* call) {
    throw std::system_error(errno, std::system_category(), call);
}

int clock_number(alarm_clock which) noexcept {
    return which == alarm_clock::realtime ? CLOCK_REALTIME : CLOCK_BOOTTIME;
}

struct callback_timer final : reactor_timer {
    explicit callback_timer(callback&& f) noexcept : reactor_timer(&run), fn(std::move(f)) {}
    static void run(reactor_timer& self, timer_id, void*) {
        static_cast<callback_timer&>(self).fn();
    }
    callback fn;
};

class owned_fd {
public:
    owned_fd() noexcept = default;
    ~owned_fd() { reset(-1); }
    owned_fd(const owned_fd&) = delete;
    owned_fd& operator=(const owned_fd&) = delete;
    void reset(int fd) noexcept {
        if (const int old = std::exchange(fd_, fd); old >= 0) os::close(old);
    }
    [[nodiscard]] int get() const noexcept { return fd_; }

private:
    int fd_ = -1;
};

// Operations in the order they came.
class operation_list {
public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] fd_operation* front() const noexcept { return first_; }
    void push(fd_operation& op) noexcept {
        op.next = nullptr;
        *last_ = &op;
        last_ = &op.next;
    }
    fd_operation* pop() noexcept {
        fd_operation* const op = first_;
        first_ = op->next;
        if (first_ == nullptr) last_ = &first_;
        return op;
    }
    bool remove(fd_operation& op) noexcept {
        for (fd_operation** at = &first_; *at != nullptr; at = &(*at)->next) {
            if (*at != &op) continue;
            *at = op.next;
            if (last_ == &op.next) last_ = at;
            return true;
        }
        return false;
    }
    void append(operation_list& other) noexcept {
        while (!other.empty())
            push(*other.pop());
    }
    std::size_t finish_all(std::error_code error, void* sink) {
        std::size_t count = 0;
        for (; !empty(); ++count)
            pop()->finish(error, sink);
        return count;
    }

    operation_list() noexcept = default;
    operation_list(const operation_list&) = delete;
    operation_list& operator=(const operation_list&) = delete;
    ~operation_list() = default;

private:
    fd_operation* first_ = nullptr;
    fd_operation** last_ = &first_;
};

const std::error_code canceled = std::make_error_code(std::errc::operation_canceled);

}  // namespace

void punctual_scope::begin() noexcept {
    if (before_ != 0) return;
    const int slack = os::timer_slack();
    before_ = slack > 0 ? static_cast<unsigned long>(slack) : 1;
    if (before_ != 1) os::set_timer_slack(1);
}

punctual_scope::~punctual_scope() {
    if (before_ > 1) os::set_timer_slack(before_);
}

reactor_timer_ref::reactor_timer_ref(callback&& fn)
    : bits_(reinterpret_cast<std::uintptr_t>(
                static_cast<reactor_timer*>(new callback_timer(std::move(fn)))) |
            owned) {}

void reactor_timer_ref::destroy() noexcept {
    delete static_cast<callback_timer*>(&timer());
}

// ---- what is registered -------------------------------------------------------------------------

namespace {

using optional_mutex = detail::optional_lock<detail::thread_mutex>;

}  // namespace

class reactor::descriptor {
public:
    descriptor(int number, after_fork then, bool locks) noexcept
        : fd(number), in_child(then), lock(locks) {}

    const int fd;
    const after_fork in_child;
    optional_mutex lock;
    operation_list pending[3] VERGE_GUARDED_BY(lock);  // by fd_event
    bool removed VERGE_GUARDED_BY(lock) = false;
    descriptor* next = nullptr;  // of the core's lists, under its lock
    descriptor* prev = nullptr;
};

class reactor::core {
public:
    explicit core(bool use_locks)
        : locks(use_locks), arm_lock(use_locks), lock(use_locks), alarm_lock(use_locks) {
        open();
    }
    ~core() {
        reclaim();
        while (all != nullptr)
            delete std::exchange(all, all->next);
    }
    core(const core&) = delete;
    core& operator=(const core&) = delete;

    void open() {
        epoll.reset(os::epoll_create1(EPOLL_CLOEXEC));
        if (epoll.get() < 0) refuse("epoll_create1");
        wake.reset(os::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (wake.get() < 0) refuse("eventfd");
        add_own(wake.get());
        timer.reset(os::timerfd_create(CLOCK_MONOTONIC,
                                       TFD_CLOEXEC | TFD_NONBLOCK));  // refused: see arm_kernel()
        if (timer.get() >= 0) add_own(timer.get());
    }

    // Edge-triggered: every write and every expiry is an edge, so nothing has to be read.
    void add_own(int fd) const {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLET;
        event.data.ptr = const_cast<int*>(fd == wake.get() ? &wake_mark : &timer_mark);
        if (os::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) refuse("epoll_ctl");
    }

    void add(descriptor& d) const {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET;
        event.data.ptr = &d;
        // EPERM: a regular file, which is always ready, so that every attempt succeeds at once.
        if (os::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, d.fd, &event) != 0 && errno != EPERM) {
            refuse("epoll_ctl");
        }
    }

    // If refused, it stays shared: each process then wakes the other one needlessly.
    void renew(int fd) const noexcept {
        const int fresh = os::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fresh < 0) return;
        os::dup3(fresh, fd, O_CLOEXEC);
        os::close(fresh);
    }

    // Sets the timerfd, if the waiter would otherwise sleep beyond `when`.  Any thread.
    void wake_before(time_point when) noexcept {
        if (timer.get() < 0) return interrupt();
        const detail::lock_scope hold(arm_lock);
        if (when < std::min(hard, soft)) set_hard(when);
    }

    void interrupt() noexcept {
        interrupts.fetch_add(1, std::memory_order_relaxed);  // relaxed: a number
        const std::uint64_t one = 1;
        static_cast<void>(os::write(wake.get(), &one, sizeof one) == sizeof one);
    }

    // Sets the kernel's wake-up to `when`.  Returns the time-out of the wait; max: none.
    duration arm_kernel(time_point when, time_point now, punctual_scope* punctual) noexcept {
        if (when == never) return duration::max();
        if (timer.get() < 0) return when - now;
        const bool is_near = punctual != nullptr && has_pwait2 && when - now <= near;
        if (is_near) punctual->begin();
        const detail::lock_scope hold(arm_lock);
        if (when >= hard) return duration::max();
        if (is_near) {
            soft = when;
            // Earlier by the expected latency, unless that leaves no time to sleep.
            asked = when - now > 2 * lead.lead() ? when - lead.lead() : when;
            return asked - now;
        }
        set_hard(when);
        return duration::max();
    }

    // The kernel may have woken us before `when`: polls for events until then.  Returns how many
    // there are, as ask_kernel().
    int wait_out(epoll_event* events, int room, time_point when) noexcept {
        const steady_source source;
        lead.woke(source.now() - std::exchange(asked, never));
        int ready = 0;
        while (ready == 0 && source.now() < when)
            ready = os::epoll_wait(epoll.get(), events, room, 0);
        return ready;
    }

    void back_from_wait(bool timer_ticked) noexcept {
        const detail::lock_scope hold(arm_lock);
        soft = never;
        if (timer_ticked) hard = never;
    }

    int ask_kernel(epoll_event* events, int room, duration timeout) noexcept {
        waits.store(waits.load(std::memory_order_relaxed) + 1,  // relaxed: one writer
                    std::memory_order_relaxed);
        if (timeout == duration::zero()) return os::epoll_wait(epoll.get(), events, room, 0);
        if (timeout == duration::max()) return os::epoll_wait(epoll.get(), events, room, -1);
        if (has_pwait2) {
            const timespec limit = to_timespec(timeout);
            const int count = os::epoll_pwait2(epoll.get(), events, room, &limit);
            if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
            has_pwait2 = false;
        }
        const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
        return os::epoll_wait(epoll.get(), events, room,
                              static_cast<int>(std::min<std::int64_t>(ms, INT_MAX)));
    }

    // Called by wait() when no event of an earlier call is left: a descriptor that was removed
    // before cannot have an event any more.
    void reclaim() noexcept {
        descriptor* gone = nullptr;
        {
            const detail::lock_scope hold(lock);
            gone = std::exchange(retired, nullptr);
        }
        while (gone != nullptr)
            delete std::exchange(gone, gone->next);
    }

    void link(descriptor& d) noexcept {
        const detail::lock_scope hold(lock);
        d.next = all;
        d.prev = nullptr;
        if (all != nullptr) all->prev = &d;
        all = &d;
    }

    void retire(descriptor& d) noexcept {
        const detail::lock_scope hold(lock);
        (d.prev != nullptr ? d.prev->next : all) = d.next;
        if (d.next != nullptr) d.next->prev = d.prev;
        d.next = retired;
        retired = &d;
    }

    struct alarm {
        owned_fd fd;
        bool refused = false;
        duration when = duration::max();
        clock_watcher* watcher = nullptr;
    };

    bool set_alarm(alarm_clock which, duration when) noexcept {
        const detail::lock_scope hold(alarm_lock);
        alarm& a = alarms[static_cast<std::size_t>(which)];
        a.when = when;
        if (a.refused) return false;
        if (a.fd.get() < 0 && !open_alarm(a, which)) {
            a.refused = true;
            return false;
        }
        return program(a, which);
    }

    bool open_alarm(alarm& a, alarm_clock which) noexcept VERGE_REQUIRES(alarm_lock) {
        a.fd.reset(os::timerfd_create(clock_number(which), TFD_CLOEXEC | TFD_NONBLOCK));
        if (a.fd.get() < 0) return false;
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = &alarm_marks[static_cast<std::size_t>(which)];
        if (os::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, a.fd.get(), &event) == 0) return true;
        a.fd.reset(-1);
        return false;
    }

    bool program(alarm& a, alarm_clock which) noexcept VERGE_REQUIRES(alarm_lock) {
        itimerspec spec{};
        // Not 0, which would disarm it; and not more than the kernel's clocks can hold.
        spec.it_value = to_timespec(std::clamp(a.when, duration(1), duration::max() / 2));
        int flags = TFD_TIMER_ABSTIME;
        if (which == alarm_clock::realtime) flags |= TFD_TIMER_CANCEL_ON_SET;
        // ECANCELED: the date was set since the last time, and it is armed all the same.
        return os::timerfd_settime(a.fd.get(), flags, &spec, nullptr) == 0 || errno == ECANCELED;
    }

    // An alarm expired, or the date was set: the watcher finds out which.
    void alarm_event(std::size_t index, void* sink) noexcept {
        clock_watcher* watcher = nullptr;
        {
            const detail::lock_scope hold(alarm_lock);
            alarm& a = alarms[index];
            if (a.fd.get() < 0) return;
            const auto which = static_cast<alarm_clock>(index);
            std::uint64_t expirations = 0;
            if (os::read(a.fd.get(), &expirations, sizeof expirations) < 0 && errno == ECANCELED) {
                program(a, which);  // else the next change goes unnoticed
            }
            watcher = a.watcher;
        }
        if (watcher != nullptr) watcher->clock_moved(sink);
    }

    const bool locks;
    owned_fd epoll, wake, timer;
    int wake_mark = 0, timer_mark = 0, alarm_marks[2] = {};  // their addresses are event data
    bool has_pwait2 = true;                                  // of the waiter
    time_point asked = never;           // of the waiter: the wake-up it has set; never: no lead
    detail::driver::wake_lead lead{8};  // of the waiter

    optional_mutex arm_lock;  // held over timerfd_settime: two calls must not be reordered
    time_point hard VERGE_GUARDED_BY(arm_lock) = never;  // what the timerfd is set to
    time_point soft VERGE_GUARDED_BY(arm_lock) = never;  // where the present time-out ends

    optional_mutex lock;
    descriptor* all VERGE_GUARDED_BY(lock) = nullptr;
    descriptor* retired VERGE_GUARDED_BY(lock) = nullptr;

    optional_mutex alarm_lock;
    alarm alarms[2] VERGE_GUARDED_BY(alarm_lock);  // by alarm_clock

    std::atomic<std::uint64_t> waits{0};
    std::atomic<std::uint64_t> interrupts{0};
    std::atomic<std::uint64_t> timer_sets{0};

private:
    void set_hard(time_point when) noexcept VERGE_REQUIRES(arm_lock) {
        hard = when;
        itimerspec spec{};
        spec.it_value = to_timespec(std::max(when.time_since_epoch(), duration(1)));
        timer_sets.store(timer_sets.load(std::memory_order_relaxed) + 1,  // relaxed: under arm_lock
                         std::memory_order_relaxed);
        if (os::timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &spec, nullptr) != 0) interrupt();
    }
};

// ---- the reactor --------------------------------------------------------------------------------

reactor::reactor() : reactor(options{}) {}

reactor::reactor(const options& opts)
    : expired_(opts.expired),
      core_(std::make_unique<core>(opts.locks)),
      timers_(*this, {.shards = opts.shards,
                      .start = steady_source{}.now(),
                      .locks = opts.locks ? shard_locks::biased : shard_locks::none}) {}

reactor::~reactor() {
    timers_.close();
    for (;;) {
        descriptor* d = nullptr;
        {
            const detail::lock_scope hold(core_->lock);
            d = core_->all;
        }
        if (d == nullptr) break;
        remove(d);
    }
}

std::size_t reactor::wait(time_point until, void* sink, punctual_scope* punctual) {
    core_->reclaim();
    const time_point now = steady_source{}.now();
    const time_point nearest = std::min(until, timers_.prepare_wait());
    const duration timeout =
        nearest <= now ? duration::zero() : core_->arm_kernel(nearest, now, punctual);

    epoll_event events[128];
    constexpr int room = static_cast<int>(std::size(events));
    int ready = core_->ask_kernel(events, room, timeout);
    if (core_->asked != never && ready == 0) ready = core_->wait_out(events, room, nearest);
    core_->asked = never;
    bool timer_ticked = false;
    for (int i = 0; i < ready; ++i)
        timer_ticked |= events[i].data.ptr == &core_->timer_mark;
    if (timeout != duration::zero() || timer_ticked) core_->back_from_wait(timer_ticked);

    std::size_t count = 0;
    for (int i = 0; i < ready; ++i) {
        void* const what = events[i].data.ptr;
        if (what == &core_->timer_mark || what == &core_->wake_mark) continue;
        if (what == &core_->alarm_marks[0] || what == &core_->alarm_marks[1]) {
            core_->alarm_event(what == &core_->alarm_marks[0] ? 0 : 1, sink);
            ++count;
            continue;
        }
        auto& d = *static_cast<descriptor*>(what);
        constexpr std::uint32_t broken = EPOLLERR | EPOLLHUP;
        const std::uint32_t wanted[] = {EPOLLIN | EPOLLRDHUP | broken, EPOLLOUT | broken,
                                        EPOLLPRI | broken};
        operation_list done;
        {
            const detail::lock_scope hold(d.lock);
            for (std::size_t kind = 0; kind < 3 && !d.removed; ++kind) {
                if ((events[i].events & wanted[kind]) == 0) continue;
                operation_list& pending = d.pending[kind];
                while (!pending.empty() && pending.front()->attempt())
                    done.push(*pending.pop());
            }
        }
        count += done.finish_all({}, sink);
    }
    return count + expire_due(sink);
}

std::size_t reactor::expire_due(void* sink) {
    return timers_.dispatch_due(
        steady_source{}.now(), expiry_budget,
        [this, sink](timer_service::running_timer timer, const due_timer& due) {
            if (void* const object = timer.payload().plain_object()) {
                expired_(object, due.id, nanosecond_ticks.time_of(due.deadline), sink);
            } else {
                timer.payload().timer().expire(due.id, sink);
            }
        });
}

void reactor::interrupt() noexcept {
    core_->interrupt();
}

timer_id reactor::arm(time_point deadline, callback fn) {
    return timers_.arm(deadline, reactor_timer_ref(std::move(fn)));
}

void reactor::wake_before(time_point deadline) noexcept {
    core_->wake_before(deadline);
}

bool reactor::set_alarm(alarm_clock which, duration when) noexcept {
    return core_->set_alarm(which, when);
}

void reactor::watch(alarm_clock which, clock_watcher* watcher) noexcept {
    const detail::lock_scope hold(core_->alarm_lock);
    core_->alarms[static_cast<std::size_t>(which)].watcher = watcher;
}

reactor::descriptor* reactor::add(int fd, after_fork then) {
    auto d = std::make_unique<descriptor>(fd, then, core_->locks);
    core_->add(*d);
    core_->link(*d);
    return d.release();
}

void reactor::remove(descriptor* of) noexcept {
    {
        const detail::lock_scope hold(of->lock);
        of->removed = true;
    }
    epoll_event none{};
    os::epoll_ctl(core_->epoll.get(), EPOLL_CTL_DEL, of->fd, &none);
    cancel(*of);
    core_->retire(*of);
}

void reactor::start(descriptor& of, fd_event event, fd_operation& operation) {
    bool done = false;
    bool removed = false;
    {
        const detail::lock_scope hold(of.lock);
        operation_list& pending = of.pending[static_cast<std::size_t>(event)];
        removed = of.removed;
        // Under the lock: an event after this attempt finds the operation in the list.
        if (!removed) done = pending.empty() && operation.attempt();
        if (!removed && !done) pending.push(operation);
    }
    if (done || removed) operation.finish(removed ? canceled : std::error_code{}, nullptr);
}

std::size_t reactor::cancel(descriptor& of, fd_event event) noexcept {
    operation_list doomed;
    {
        const detail::lock_scope hold(of.lock);
        doomed.append(of.pending[static_cast<std::size_t>(event)]);
    }
    return doomed.finish_all(canceled, nullptr);
}

std::size_t reactor::cancel(descriptor& of) noexcept {
    operation_list doomed;
    {
        const detail::lock_scope hold(of.lock);
        for (operation_list& pending : of.pending)
            doomed.append(pending);
    }
    return doomed.finish_all(canceled, nullptr);
}

// The caller is alone.
void reactor::cancel_all() noexcept VERGE_NO_THREAD_SAFETY_ANALYSIS {
    for (descriptor* d = core_->all; d != nullptr; d = d->next)
        cancel(*d);
}

bool reactor::cancel(descriptor& of, fd_event event, fd_operation& operation) noexcept {
    {
        const detail::lock_scope hold(of.lock);
        if (!of.pending[static_cast<std::size_t>(event)].remove(operation)) return false;
    }
    operation.finish(canceled, nullptr);
    return true;
}

bool reactor::is_ready(const descriptor& of, fd_event event) noexcept {
    constexpr short asked[] = {POLLIN | POLLRDHUP, POLLOUT, POLLPRI};
    pollfd look{of.fd, asked[static_cast<std::size_t>(event)], 0};
    return os::poll(&look, 1, 0) > 0;
}

int reactor::fd_of(const descriptor& of) noexcept {
    return of.fd;
}

// Takes no lock: a thread that does not exist in this process may hold it.
void reactor::restart_after_fork() VERGE_NO_THREAD_SAFETY_ANALYSIS {
    core_->open();
    for (std::size_t i = 0; i < 2; ++i) {
        core::alarm& a = core_->alarms[i];
        const auto which = static_cast<alarm_clock>(i);
        if (a.fd.get() >= 0 && core_->open_alarm(a, which)) core_->program(a, which);
    }
    for (descriptor* d = core_->all; d != nullptr; d = d->next) {
        if (d->in_child == after_fork::renewed) core_->renew(d->fd);
        core_->add(*d);
    }
    core_->hard = core_->soft = never;
    core_->interrupt();
}

reactor_stats reactor::stats() const noexcept {
    // relaxed, three times: numbers, in no order.
    return {core_->waits.load(std::memory_order_relaxed),
            core_->interrupts.load(std::memory_order_relaxed),
            core_->timer_sets.load(std::memory_order_relaxed)};
}

}  // namespace verge
