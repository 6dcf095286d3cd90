// src/driver/timer_thread.cpp -- the timer thread: its loop, its sleep, executors and forks.

#include <verge/base/detail/fast_clock.hpp>
#include <verge/base/detail/fork_guard.hpp>
#include <verge/base/detail/in_place.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/driver/detail/wake_lead.hpp>
#include <verge/driver/timer_service.hpp>
#include <verge/driver/timer_thread.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

namespace verge {

namespace {

constexpr std::size_t batch_size = 64;

// The additional state of a periodic timer.  On the heap, to keep one-shot timers small.
struct periodic {
    tick due = 0;       // the deadline of the present run, in phase, even if it is in the past
    tick armed_as = 0;  // the deadline in the service: not before the shard's now
    tick period = 1;
    missed_ticks policy{};
};

struct payload {
    explicit payload(callback&& f, std::unique_ptr<periodic> r = nullptr) noexcept
        : repeat(std::move(r)), fn(std::move(f)) {}
    [[nodiscard]] bool has_trivial_destroy() const noexcept {
        return repeat == nullptr && fn.has_trivial_destroy();
    }
    [[nodiscard]] bool has_trivial_move() const noexcept { return fn.has_trivial_move(); }
    std::unique_ptr<periodic> repeat;
    callback fn;
};

// On a timer thread: its core.  Not a pthread_t, which another thread may get later.
constinit thread_local const void* own_core = nullptr;

// One writer, the timer thread; a load and a store need no lock prefix.
void add(std::atomic<std::uint64_t>& to, std::uint64_t n) noexcept {
    // relaxed, twice: readers need the number and no order.
    to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// in_place.hpp is safe here: all callers are the noinline member functions below.
struct platform : service_platform {
    static unsigned thread_number() noexcept { return detail::in_place::thread_number(); }
};

}  // namespace

class timer_thread::core final : public timer_waker, public std::enable_shared_from_this<core> {
public:
    using service_type = basic_timer_service<payload, platform>;
    using after_run = service_type::after_run;

    explicit core(const options& opts)
        : options_(opts),
          service_(*this, {.shards = opts.shards,
                           .reserve = opts.reserve,
                           .max_timers = opts.max_timers,
                           .start = steady_source{}.now(),
                           .locks = opts.locks == shard_locks::biased ? shard_locks::biased
                                                                      : shard_locks::plain}) {
        options_.kernel_slack = std::max(options_.kernel_slack, duration(1));
        options_.spin = std::max(options_.spin, duration::zero());
    }
    ~core() override = default;
    core(const core&) = delete;
    core& operator=(const core&) = delete;

    void start() {
        // The first call in a process takes 0.1 ms: too long to do under a shard's lock.
        static_cast<void>(detail::upper_now_is_fast());
        auto self = std::make_unique<std::shared_ptr<core>>(shared_from_this());
        thread_ = detail::os_thread(&thread_main, self.get(), {.name = options_.name});
        static_cast<void>(self.release());  // the thread deletes it
    }

    void wake_before(time_point) noexcept override { parker_.unpark(); }

    service_type& service() noexcept { return service_; }
    [[nodiscard]] bool same_process() const noexcept { return fork_.same_process(); }
    [[nodiscard]] pthread_t handle() const noexcept { return thread_.handle(); }
    [[nodiscard]] bool on_thread() const noexcept { return own_core == this; }
    [[nodiscard]] bool inside_callback() const noexcept {
        return detail::driver::running_scope::inside_service(&service_);
    }

    // In a forked child: locks may be held by threads that do not exist there, so nothing can be
    // destroyed.  Leaks the reference.
    static void abandon(std::shared_ptr<core> owner) noexcept {
        alignas(std::shared_ptr<core>) std::byte nowhere[sizeof owner];
        ::new (static_cast<void*>(nowhere)) std::shared_ptr<core>(std::move(owner));
    }

    timer_id schedule(time_point deadline, callback&& fn) {
        if (!fn) throw std::invalid_argument("verge::timer_thread: an empty function");
        if (!same_process()) return {};
        return service_.emplace(deadline, std::move(fn));
    }

    timer_id schedule_after(duration delay, callback&& fn) {
        if (!fn) throw std::invalid_argument("verge::timer_thread: an empty function");
        if (!same_process()) return {};
        const detail::in_place::pending_now now;
        return service_.emplace_by(
            [&now, delay]() noexcept { return deadline_after(now.get(), delay); }, std::move(fn));
    }

    timer_id schedule_between(time_point earliest, time_point latest, callback&& fn) {
        if (!fn) throw std::invalid_argument("verge::timer_thread: an empty function");
        if (!same_process()) return {};
        return service_.arm_between(earliest, latest, payload(std::move(fn)));
    }

    timer_id schedule_every(duration period, callback&& fn, missed_ticks policy) {
        if (!fn) throw std::invalid_argument("verge::timer_thread: an empty function");
        if (!same_process()) return {};
        const duration step = std::max(period, duration(1));
        const time_point first = deadline_after(steady_source{}.now(), step);
        auto repeat = std::make_unique<periodic>();
        repeat->due = repeat->armed_as = nanosecond_ticks.ticks_ceil(first);
        repeat->period = static_cast<tick>(step.count());
        repeat->policy = policy;
        return service_.emplace(first, std::move(fn), std::move(repeat));
    }

    void request_stop() noexcept {
        service_.close();
        // relaxed: the parker orders it for the timer thread.
        stopping_.store(true, std::memory_order_relaxed);
        parker_.unpark();
    }

    void join() noexcept {
        const std::lock_guard hold(join_lock_);
        thread_.join();
    }

    void detach() noexcept {
        const std::lock_guard hold(join_lock_);
        thread_.detach();
    }

    [[nodiscard]] statistics stats() const {
        statistics all;
        static_cast<timer_stats&>(all) = service_.stats();
        // relaxed, three times: numbers, in no order.
        all.wakeups = wakeups_.load(std::memory_order_relaxed);
        all.spurious_wakeups = spurious_wakeups_.load(std::memory_order_relaxed);
        all.busy_ns = busy_ns_.load(std::memory_order_relaxed);
        all.lateness = lateness_.snapshot();
        return all;
    }

    // A timer that was passed to an executor.  Runs it when called; if destroyed without a call,
    // drops the timer.
    class handed {
    public:
        handed(std::shared_ptr<core> owner, const due_timer& due) noexcept
            : owner_(std::move(owner)), due_(due) {}
        handed(handed&& other) noexcept = default;
        handed& operator=(handed&&) = delete;
        handed(const handed&) = delete;
        handed& operator=(const handed&) = delete;
        ~handed() {
            if (owner_ == nullptr) return;
            if (owner_->same_process()) {
                owner_->service_.drop(due_);
            } else {
                abandon(std::move(owner_));
            }
        }
        void operator()() {
            std::shared_ptr<core> owner = std::move(owner_);
            if (owner == nullptr) return;
            if (owner->same_process()) owner->run_one(due_);
            if (!owner->same_process()) abandon(std::move(owner));  // also if the callback forked
        }

    private:
        std::shared_ptr<core> owner_;
        due_timer due_;
    };
    static_assert(callback::fits<handed>);

private:
    static void* thread_main(void* arg) {
        const std::unique_ptr<std::shared_ptr<core>> self(static_cast<std::shared_ptr<core>*>(arg));
        (*self)->run();
        if (!(*self)->same_process()) abandon(std::move(*self));
        return nullptr;
    }

    void run() noexcept {
        own_core = this;
        detail::os::set_timer_slack(static_cast<unsigned long>(options_.kernel_slack.count()));
        const steady_source source;
        time_point awake_since = source.now();
        bool woken = false;  // since the last batch: a wake-up that has found nothing yet
        // relaxed: request_stop() unparks us after it sets it, and park() synchronizes with that.
        while (!stopping_.load(std::memory_order_relaxed)) {
            const std::size_t count = options_.run_on ? hand_over_due() : run_due();
            if (!same_process()) return;  // a callback forked, and returned in the child
            if (count > 0) {
                woken = false;
                continue;
            }
            if (std::exchange(woken, false)) add(spurious_wakeups_, 1);
            const time_point now = source.now();
            const time_point until = service_.prepare_wait(now);
            if (until <= now) continue;
            add(busy_ns_, static_cast<std::uint64_t>((now - awake_since).count()));
            awake_since = sleep_until(until);
            add(wakeups_, 1);
            woken = true;
        }
        add(busy_ns_, static_cast<std::uint64_t>((source.now() - awake_since).count()));
        // Closures in the executor own this object, so it must not own the executor: a cycle.
        options_.run_on = nullptr;
    }

    // Returns the time of the wake-up: the busy-wait after it counts as busy time.
    time_point sleep_until(time_point until) noexcept {
        const steady_source source;
        const bool learns = options_.spin == duration::zero();
        duration lead = learns ? lead_.lead() : options_.spin;
        // No time left to sleep: sleep to the deadline itself, to keep busy-waits rare.
        if (until == never || (learns && until - source.now() <= 2 * lead)) lead = duration::zero();
        const time_point asked = until == never ? never : until - lead;
        const bool woken = parker_.park(asked);
        const time_point awake_since = source.now();
        if (learns && !woken && until != never) lead_.woke(awake_since - asked);
        while (!woken && lead != duration::zero() && source.now() < until) {
            // Poll the parker: a wake-up, for an earlier timer or for stop(), ends the busy-wait.
            if (!parker_.enter() || parker_.leave()) break;
        }
        return awake_since;
    }

    // One batch; the clock is read again for the next one.
    std::size_t run_due() noexcept {
        return service_.dispatch_due(
            steady_source{}.now(), batch_size,
            [this](service_type::running_timer timer, const due_timer& due) {
                record_lateness(due);
                return call(timer, due);
            });
    }

    std::size_t hand_over_due() noexcept {
        due_timer batch[batch_size];
        const std::size_t count = service_.collect(steady_source{}.now(), batch, batch_size);
        // relaxed: set on this thread, if a callback that the executor ran inline called stop();
        // then the executor may no longer exist.
        for (std::size_t i = 0;
             i < count && !stopping_.load(std::memory_order_relaxed) && same_process(); ++i) {
            hand_over(batch[i]);
        }
        return count;
    }

    void hand_over(const due_timer& due) noexcept {
        record_lateness(due);
        try {
            options_.run_on(handed(shared_from_this(), due));
        } catch (...) {
            report(std::current_exception());
        }
    }

    void run_one(const due_timer& due) noexcept {
        const service_type::running_timer timer = service_.begin(due);
        if (!timer) return;
        const detail::driver::running_scope inside(&service_, due.id);
        if (call(timer, due) == after_run::over) service_.end(timer);
    }

    // Runs the callback.  It may fork and return in the child: there no lock may be taken and no
    // member touched.
    after_run call(service_type::running_timer timer, const due_timer& due) noexcept {
        payload& p = timer.payload();
        try {
            p.fn();
        } catch (...) {
            report(std::current_exception());
        }
        if (!same_process()) return after_run::forked;
        if (p.repeat == nullptr) return after_run::over;
        periodic& repeat = *p.repeat;
        // A reschedule() moved this run, and the phase with it.
        if (due.deadline != repeat.armed_as) repeat.due = due.deadline;
        const tick now = nanosecond_ticks.ticks_floor(steady_source{}.now());
        repeat.due = next_period(repeat.due, repeat.period, now, repeat.policy).next;
        service_.again(timer, nanosecond_ticks.time_of(repeat.due), repeat.armed_as);
        return after_run::settled;
    }

    void report(std::exception_ptr error) noexcept {
        if (!options_.on_exception) std::terminate();
        options_.on_exception(std::move(error));
    }

    void record_lateness(const due_timer& due) noexcept {
        const tick now = nanosecond_ticks.ticks_floor(steady_source{}.now());
        lateness_.record(now > due.deadline ? now - due.deadline : 0);
    }

    options options_;
    detail::fork_guard fork_;
    service_type service_;
    parker parker_;
    detail::driver::wake_lead lead_{8};  // by the timer thread
    std::atomic<bool> stopping_{false};  // written by request_stop()
    // Written by the timer thread, read by stats().
    std::atomic<std::uint64_t> wakeups_{0};
    std::atomic<std::uint64_t> spurious_wakeups_{0};
    std::atomic<std::uint64_t> busy_ns_{0};
    histogram lateness_;
    detail::thread_mutex join_lock_;
    detail::os_thread thread_;  // written by start()
};

timer_thread::timer_thread() : timer_thread(options{}) {}

timer_thread::timer_thread(const options& opts) : core_(std::make_shared<core>(opts)) {
    core_->start();
}

timer_thread::~timer_thread() {
    if (!core_->same_process()) {
        core::abandon(std::move(core_));
        return;
    }
    core_->request_stop();
    core_->service().wait_idle();
    if (core_->on_thread()) {
        core_->detach();
    } else {
        core_->join();
    }
}

namespace {

detail::thread_mutex shared_lock;
timer_thread* shared_one = nullptr;               // under shared_lock
timer_thread::options* shared_options = nullptr;  // under shared_lock

}  // namespace

timer_thread& timer_thread::shared() {
    static timer_thread& one = []() -> timer_thread& {
        const std::lock_guard hold(shared_lock);
        shared_one =
            shared_options != nullptr ? new timer_thread(*shared_options) : new timer_thread;
        return *shared_one;
    }();
    return one;
}

bool timer_thread::configure_shared(const options& opts) {
    const std::lock_guard hold(shared_lock);
    if (shared_one != nullptr) return false;
    delete std::exchange(shared_options, new options(opts));
    return true;
}

// Not inlined: they use in_place.hpp.  schedule_after() is flattened, which saves 1.5 ns.

[[gnu::noinline]] timer_id timer_thread::schedule_at(time_point deadline, callback fn) {
    return core_->schedule(deadline, std::move(fn));
}

[[gnu::noinline]] timer_id timer_thread::schedule_at(time_point deadline, void (*fn)(void*),
                                                     void* arg) {
    if (fn == nullptr) return core_->schedule(deadline, {});
    return core_->schedule(deadline, [fn, arg] { fn(arg); });
}

[[gnu::noinline, gnu::flatten]] timer_id timer_thread::schedule_after(duration delay, callback fn) {
    return core_->schedule_after(delay, std::move(fn));
}

[[gnu::noinline]] timer_id timer_thread::schedule_between(time_point earliest, time_point latest,
                                                          callback fn) {
    return core_->schedule_between(earliest, latest, std::move(fn));
}

[[gnu::noinline]] timer_id timer_thread::schedule_every(duration period, callback fn,
                                                        missed_ticks policy) {
    return core_->schedule_every(period, std::move(fn), policy);
}

[[gnu::noinline]] cancel_result timer_thread::cancel(timer_id id) noexcept {
    return core_->same_process() ? core_->service().cancel(id) : cancel_result::gone;
}

[[gnu::noinline]] cancel_result timer_thread::cancel_and_wait(timer_id id) noexcept {
    return core_->same_process() ? core_->service().cancel_and_wait(id) : cancel_result::gone;
}

[[gnu::noinline]] reschedule_result timer_thread::reschedule(timer_id id,
                                                             time_point deadline) noexcept {
    return core_->same_process() ? core_->service().rearm(id, deadline) : reschedule_result::gone;
}

std::optional<duration> timer_thread::remaining(timer_id id) const noexcept {
    if (!core_->same_process()) return std::nullopt;
    const std::optional<time_point> deadline = core_->service().deadline_of(id);
    if (!deadline) return std::nullopt;
    if (*deadline == never) return duration::max();
    return std::max(*deadline - steady_source{}.now(), duration::zero());
}

void timer_thread::stop() noexcept {
    if (!core_->same_process()) return;
    core_->request_stop();
    if (core_->on_thread() || core_->inside_callback()) return;
    core_->service().wait_idle();
    core_->join();
}

void timer_thread::trim() noexcept {
    if (core_->same_process()) core_->service().trim();
}

timer_thread::statistics timer_thread::stats() const {
    return core_->same_process() ? core_->stats() : statistics{};
}

pthread_t timer_thread::native_handle() const noexcept {
    return core_->handle();
}

bool timer_thread::on_timer_thread() const noexcept {
    return core_->same_process() && core_->on_thread();
}

}  // namespace verge
