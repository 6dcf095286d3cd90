// src/fibers/scheduler_core.cpp -- workers' threads, spawning, records, stacks that were refused,
// and the end of a scheduler.

#include "fibers/scheduler_core.hpp"

#include <verge/base/detail/assert.hpp>
#include <verge/base/detail/thread_number.hpp>
#include <verge/sync/cancellation.hpp>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sched.h>
#include <signal.h>

namespace verge::fibers::detail {

namespace {

scheduler::options checked(scheduler::options opts) {
    if (opts.max_workers == 0)
        opts.max_workers = std::max(verge::detail::processor_count(), opts.min_workers);
    if (opts.min_workers < 1 || opts.max_workers < opts.min_workers || opts.max_workers > 1024) {
        throw std::invalid_argument(
            "verge::fibers::scheduler: 1 <= min_workers <= max_workers <= 1024");
    }
    for (const int cpu : opts.cpus) {
        if (cpu < 0 || cpu >= CPU_SETSIZE) {
            throw std::invalid_argument("verge::fibers::scheduler: no such cpu");
        }
    }
    return opts;
}

constinit verge::detail::spin_lock cores_lock;

// Held across a fork, as the registry's in src/base/slot_registry.cpp: a child may make a
// scheduler.
[[maybe_unused]] const int held_over_forks =
    ::pthread_atfork([]() VERGE_NO_THREAD_SAFETY_ANALYSIS { cores_lock.lock(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { cores_lock.unlock(); },
                     []() VERGE_NO_THREAD_SAFETY_ANALYSIS { cores_lock.unlock(); });

}  // namespace

constinit scheduler_core* scheduler_core::first_core = nullptr;

void scheduler_core::enter_list() noexcept {
    const verge::detail::lock_scope hold(cores_lock);
    next_core_ = std::exchange(first_core, this);
}

scheduler_core::~scheduler_core() {
    const verge::detail::lock_scope hold(cores_lock);
    scheduler_core** at = &first_core;
    while (*at != this)
        at = &(*at)->next_core_;
    *at = next_core_;
}

scheduler_core::scheduler_core(scheduler& of, const scheduler::options& opts)
    : front(&of),
      options(checked(opts)),
      timers(opts.timers != nullptr ? *opts.timers : timer_thread::shared()),
      records_(record_pool::unlimited, this) {
    const std::size_t sizes[] = {options.small_stack, options.normal_stack, options.large_stack};
    for (std::size_t i = 0; i < stacks.size(); ++i) {
        stacks[i] = std::make_unique<stack_pool>(stack_pool::options{
            .stack_size = sizes[i], .keep = options.keep_stacks, .guards = options.guards});
    }
    const bool shared = options.max_workers > 1;
    for (unsigned i = 0; i < options.max_workers; ++i)
        workers.push_back(std::make_unique<worker>(*this, i, shared));
    try {
        const std::lock_guard hold(threads_lock_);
        for (std::size_t i = 0; i < options.min_workers; ++i)
            start_thread(*workers[i]);
    } catch (...) {
        end_threads();
        throw;
    }
    enter_list();
}

// ---- threads -----------------------------------------------------------------------------------

void* scheduler_core::thread_main(void* w) {
    static_cast<worker*>(w)->run();
    return nullptr;
}

// Releases the lock for the join and takes it again: a thread that ends destroys its thread_local
// variables, whose destructors may spawn, and so call grow().
void scheduler_core::join_thread(worker& w,
                                 std::unique_lock<verge::detail::thread_mutex>& hold) noexcept {
    if (w.thread == worker::thread_state_of::ended) crew_.joined();
    w.thread = worker::thread_state_of::joining;
    ++joining_;
    hold.unlock();
    w.handle.join();
    hold.lock();
    --joining_;
    w.thread = worker::thread_state_of::none;
}

// Two workers that end must not join each other.
bool scheduler_core::called_by_ending_worker() const noexcept {
    return std::any_of(workers.begin(), workers.end(), [](const auto& w) {
        return (w->thread == worker::thread_state_of::ended ||
                w->thread == worker::thread_state_of::joining) &&
               w->handle.is_caller();
    });
}

void scheduler_core::start_thread(worker& w) {
    const auto index = std::find_if(workers.begin(), workers.end(),
                                    [&](const auto& each) { return each.get() == &w; }) -
                       workers.begin();
    const std::string number = '/' + std::to_string(index);
    const std::string name = options.name.substr(0, 15 - number.size()) + number;
    w.handle = verge::detail::os_thread(&thread_main, &w, {.name = name, .cpus = &options.cpus});
    w.thread = worker::thread_state_of::running;
    crew_.count_in();
}

// Starts one more worker, if the limit allows it.  If the system refuses, the others do the work.
[[gnu::noinline]] void scheduler_core::grow() noexcept {
    std::unique_lock hold(threads_lock_);
    if (grow_again_ != time_point{} && steady_source{}.now() < grow_again_) return;
    for (const auto& w : workers) {
        if (closing() || lot.waiters() != 0) return;  // it is too late, or a worker is idle by now
        if (w->thread == worker::thread_state_of::ended && !called_by_ending_worker()) {
            join_thread(*w, hold);
            if (closing()) return;
        }
        if (w->thread != worker::thread_state_of::none) continue;
        try {
            start_thread(*w);
            grow_again_ = {};
        } catch (const std::system_error&) {
            ++workers_refused_;
            grow_again_ = deadline_after(steady_source{}.now(), growth_pause);
        }
        return;
    }
}

void scheduler_core::join_ended() noexcept {
    std::unique_lock hold(threads_lock_);
    for (const auto& w : workers) {
        if (closing()) return;  // end_threads() joins all
        if (w->thread == worker::thread_state_of::ended) join_thread(*w, hold);
    }
}

bool scheduler_core::may_end(unsigned index) noexcept {
    if (index < options.min_workers) return false;
    std::unique_lock hold(threads_lock_, std::try_to_lock);
    if (!hold || closing()) return false;
    const std::uint64_t busy = workers[index]->busy_ns();
    workers[index]->thread = worker::thread_state_of::ended;
    if (crew_.let_go(lot, [this] { return any_work(); })) {
        workers[index]->busy_before = busy;
        hold.unlock();
        lot.notify();
        return true;
    }
    workers[index]->thread = worker::thread_state_of::running;
    return false;
}

bool scheduler_core::any_work() const noexcept {
    return std::any_of(workers.begin(), workers.end(),
                       [](const auto& w) { return !w->queue.empty() || !w->remote.empty(); });
}

// ---- spawning and making ready -----------------------------------------------------------------

void scheduler_core::count_in() {
    if (options.max_fibers == scheduler::unlimited) return;
    // relaxed, all of them: a number; it orders nothing.
    std::size_t count = unfinished_.load(std::memory_order_relaxed);
    while (count < options.max_fibers) {
        if (unfinished_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return;
    }
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            "verge::fibers::scheduler: max_fibers");
}

void scheduler_core::one_finished() noexcept {
    if (options.max_fibers == scheduler::unlimited) return;
    unfinished_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: as in count_in()
}

scheduler_core::outside_count::outside_count(scheduler_core* of) noexcept : of_(of) {
    if (of_ != nullptr) of_->fibers_.spawn_one_outside();
}

scheduler_core::outside_count::~outside_count() {
    if (of_ != nullptr) of_->fibers_.take_back_outside(of_->workers);
}

fiber_record* scheduler_core::spawn(spawn_mode mode, callback&& fn, const spawn_options& opts,
                                    std::stop_source&& stop, bool joinable) {
    if (!fn) throw std::invalid_argument("verge::fibers::scheduler: an empty function");
    worker* w = worker::here();
    if (w != nullptr && &w->core() != this) w = nullptr;
    // A fiber that spawns is unfinished itself; another thread must be counted before it checks, or
    // stop() would find all fibers finished during the spawn.
    outside_count counted(w == nullptr ? this : nullptr);
    if (fibers_.closed()) {
        throw std::system_error(std::make_error_code(std::errc::operation_canceled),
                                "verge::fibers::scheduler: stopped");
    }
    std::unique_ptr<fiber_extras> extras;
    if (!opts.name.empty() || stop.stop_possible()) {
        extras = std::make_unique<fiber_extras>();
        extras->set_name(opts.name);
        extras->stop = std::move(stop);
    }
    count_in();
    fiber_record* r = nullptr;
    try {
        if (w != nullptr) {
            r = w->take_record();
        } else {
            task_list<fiber_record> one;
            take_records(one, 1);
            r = one.pop();
        }
    } catch (...) {
        one_finished();
        throw;
    }
    r->core = this;
    r->reset(opts.stack, opts.inherit_deadline ? current_deadline() : never, std::move(fn));
    if (extras != nullptr) r->set_extras(std::move(extras));
    if (w != nullptr) w->counts.spawn_one();
    counted.keep();
    r->life.begin(joinable);
    if (fibers_.closed()) {  // stop() may have visited the record before begin()
        r->request(waiter::stop_request);
        if (fiber_extras* const told = r->extras()) told->stop.request_stop();
    }

    if (w == nullptr) {
        if (mode == spawn_mode::batched) {
            defer_wakeup(*r);
        } else {
            flush_outside_wakeups();
        }
        remote_queue<fiber_record>& to =
            workers[verge::detail::thread_number() % workers.size()]->remote;
        to.push(r);
        if (mode != spawn_mode::batched) announce();
        to.leave();
    } else if (mode == spawn_mode::urgent && w->current() != nullptr) {
        worker::run_child(*r);
    } else if (mode == spawn_mode::batched) {
        w->queue.push(r);
        w->has_deferred_wakeup = true;
    } else {
        // make_ready() also wakes for the batched spawns on this worker's own scheduler.
        if (std::exchange(w->has_deferred_wakeup, false)) flush_outside_wakeups();
        w->make_ready(*r);
    }
    return r;
}

void scheduler_core::flush() noexcept {
    worker* const w = worker::here();
    if (w != nullptr && &w->core() == this) {
        w->has_deferred_wakeup = false;
        w->queue.announce();
    }
    flush_outside_wakeups();
    announce();
}

namespace {

// One of the fibers that this thread has spawned batched on a scheduler that it is not a worker of.
// A reference to it keeps the core alive until the wake-up is delivered.
constinit thread_local fiber_record* deferred = nullptr;

struct flush_at_exit {
    flush_at_exit() = default;
    flush_at_exit(const flush_at_exit&) = delete;
    flush_at_exit& operator=(const flush_at_exit&) = delete;
    ~flush_at_exit() { scheduler_core::flush_outside_wakeups(); }
};

}  // namespace

[[gnu::noinline]] void scheduler_core::defer_wakeup(fiber_record& r) noexcept {
    static thread_local const flush_at_exit at_exit;
    static_cast<void>(at_exit);
    if (worker* const here = worker::here()) {
        here->has_deferred_wakeup = true;
    } else {
        worker::call_before_block(&flush_outside_wakeups);
    }
    if (deferred != nullptr && deferred->core == r.core) return;
    flush_outside_wakeups();
    r.life.add();
    deferred = &r;
}

[[gnu::noinline]] void scheduler_core::flush_outside_wakeups() noexcept {
    fiber_record* const r = std::exchange(deferred, nullptr);
    if (r == nullptr) return;
    r->core->announce();
    r->core->release(*r);
}

void scheduler_core::make_ready(fiber_record& r) noexcept {
    worker* const w = worker::here();
    if (w != nullptr && &w->core() == this) return w->make_ready(r);
    remote_queue<fiber_record>& to =
        workers[verge::detail::thread_number() % workers.size()]->remote;
    to.push(&r);
    announce();
    to.leave();
}

// ---- stacks that the kernel refused ------------------------------------------------------------

void scheduler_core::no_stack_for(fiber_record& r) noexcept {
    stacks_refused_.fetch_add(1, std::memory_order_relaxed);         // relaxed: for statistics
    r.waits_for.store(wait_kind::stack, std::memory_order_relaxed);  // relaxed: for display
    const time_point next = deadline_after(steady_source{}.now(), stack_pause);
    bool first = false;
    {
        const verge::detail::lock_scope hold(starved_lock_);
        starved_[static_cast<std::size_t>(r.kind)].push(&r);
        // relaxed, three times: hints, written under the lock.
        const std::size_t count = starved_size_.load(std::memory_order_relaxed) + 1;
        first = count == 1;
        if (first) {
            next_stack_try_.store(next.time_since_epoch().count(), std::memory_order_relaxed);
        }
        starved_size_.store(count, std::memory_order_relaxed);
    }
    if (!first) return;
    // A worker that sleeps may hold free stacks, and has to retry: it wakes, or sees the request
    // after its prepare().  If none sleeps, and this worker continues with a fiber that never
    // waits, a new worker retries.
    lot.notify_all();
    announce();
}

fiber_record* scheduler_core::next_starved(stack_kind kind) noexcept {
    const verge::detail::lock_scope hold(starved_lock_);
    fiber_record* const r = starved_[static_cast<std::size_t>(kind)].pop();
    if (r == nullptr) return nullptr;
    // relaxed, twice: a hint, written under the lock.
    starved_size_.store(starved_size_.load(std::memory_order_relaxed) - 1,
                        std::memory_order_relaxed);
    return r;
}

bool scheduler_core::is_starved(stack_kind kind) noexcept {
    const verge::detail::lock_scope hold(starved_lock_);
    return !starved_[static_cast<std::size_t>(kind)].empty();
}

time_point scheduler_core::next_stack_try() const noexcept {
    // relaxed: a stale value makes one retry too early or too late.
    return time_point(duration(next_stack_try_.load(std::memory_order_relaxed)));
}

bool scheduler_core::may_try_for_stacks() noexcept {
    const time_point now = steady_source{}.now();
    // relaxed, twice: a number; the worker that changes it retries.
    duration::rep planned = next_stack_try_.load(std::memory_order_relaxed);
    if (now < time_point(duration(planned))) return false;
    return next_stack_try_.compare_exchange_strong(
        planned, deadline_after(now, stack_pause).time_since_epoch().count(),
        std::memory_order_relaxed);
}

// ---- records -----------------------------------------------------------------------------------

void scheduler_core::take_records(task_list<fiber_record>& to, std::size_t count) {
    for (;;) {
        std::size_t growth = 0;
        {
            const verge::detail::lock_scope hold(records_lock_);
            while (to.size() < count) {
                fiber_record* const r = records_.take();
                if (r == nullptr) break;
                to.push(r);
            }
            growth = records_.growth();
        }
        if (!to.empty()) return;
        auto more = record_pool::make_chunks(growth);
        const verge::detail::lock_scope hold(records_lock_);
        records_.adopt(std::move(more));
    }
}

void scheduler_core::free_records(task_list<fiber_record>& from) noexcept {
    if (from.empty()) return;
    bool last = false;
    {
        const verge::detail::lock_scope hold(records_lock_);
        while (fiber_record* const r = from.pop())
            records_.free(*r);
        last = orphaned_ && records_.size() == 0;
    }
    if (last) delete this;
}

void scheduler_core::release(fiber_record& r) noexcept {
    if (!r.life.drop()) return;
    r.clear();
    worker* const w = worker::here();
    if (w != nullptr && &w->core() == this) return w->give_record(&r);
    task_list<fiber_record> one;
    one.push(&r);
    free_records(one);
}

// The fiber with this id, if it has not ended.
fiber_ref scheduler_core::pin(fiber_id id) noexcept {
    const verge::detail::lock_scope hold(records_lock_);
    fiber_record* const r = records_.find(id.value());
    return r != nullptr && r->life.try_add() ? fiber_ref(r) : fiber_ref();
}

void scheduler_core::report(std::exception_ptr error) noexcept {
    if (!options.on_exception) {
        // Terminates with what() printed.
        [&]() noexcept { std::rethrow_exception(error); }();
    }
    options.on_exception(std::move(error));
}

// ---- the end -----------------------------------------------------------------------------------

// Throws, in a fiber with a deadline, if the timer thread refuses a timer.
bool scheduler_core::wait_for_all(time_point deadline) {
    announce();  // for batched spawns that were not flushed
    return fibers_.wait(workers, deadline);
}

// Calls f for some records in use, under the lock.  False at the end.
template <class F>
bool scheduler_core::visit_records(record_pool::cursor& at, F&& f) const {
    const verge::detail::lock_scope hold(records_lock_);
    for (int i = 0; i < 64; ++i) {
        fiber_record* const r = records_.next_in_use(at);
        if (r == nullptr) return false;
        f(*r);
    }
    return true;
}

// Pins some, then calls f for them outside the lock.
template <class F>
void scheduler_core::for_each_unfinished(F&& f) const {
    record_pool::cursor at;
    std::vector<fiber_ref> some;
    some.reserve(64);
    for (bool more = true; more;) {
        some.clear();
        more = visit_records(at, [&](fiber_record& r) {
            if (r.life.try_add()) some.emplace_back(&r);
        });
        for (const fiber_ref& each : some) {
            if (!each.done()) f(each);
        }
    }
}

std::vector<fiber_info> scheduler_core::stop(time_point deadline) {
    fibers_.close();  // before the records are visited
    for_each_unfinished([](const fiber_ref& each) { each.request_stop(); });
    if (wait_for_all(deadline)) return {};
    return living();
}

std::vector<fiber_info> scheduler_core::living() const {
    std::vector<fiber_info> all;
    for_each_unfinished([&](const fiber_ref& each) {
        const fiber_extras* const extras = each.get()->extras();
        all.push_back({each.id(), extras != nullptr ? extras->name() : std::string(),
                       each.get()->waiting_for()});
    });
    return all;
}

void scheduler_core::shut_down() noexcept {
    VERGE_ASSERT(worker::here() == nullptr || &worker::here()->core() != this,
                 "a scheduler is destroyed by one of its own fibers");
    static_cast<void>(wait_for_all(never));
    end_threads();
    bool last = false;
    {
        const verge::detail::lock_scope hold(records_lock_);
        orphaned_ = true;
        last = records_.size() == 0;
    }
    if (last) delete this;
}

void scheduler_core::end_threads() noexcept {
    closing_.store(true, std::memory_order_seq_cst);  // seq_cst: before the workers' last check
    lot.notify_all();
    std::unique_lock hold(threads_lock_);  // after this no worker starts, ends, or begins to join
    for (const auto& w : workers) {
        if (w->thread == worker::thread_state_of::running ||
            w->thread == worker::thread_state_of::ended) {
            join_thread(*w, hold);
        }
    }
    while (joining_ != 0) {  // by a worker that began before
        hold.unlock();
        verge::detail::os::sched_yield();
        hold.lock();
    }
    hold.unlock();
    for (const auto& w : workers) {
        while (w->remote.in_use())
            verge::detail::os::sched_yield();  // a thread is about to end
    }
}

void scheduler_core::trim() noexcept {
    for (const auto& pool : stacks)
        pool->trim();
}

scheduler::statistics scheduler_core::stats() const {
    scheduler::statistics all;
    // relaxed, all of them: for statistics.
    for (const auto& w : workers) {
        all.spawned += w->counts.spawned();
        all.finished += w->counts.finished();
        all.switches += w->switches.load(std::memory_order_relaxed);
        all.stolen += w->stolen.load(std::memory_order_relaxed);
        all.parks += w->parks.load(std::memory_order_relaxed);
    }
    // relaxed: as above, twice.
    all.spawned += fibers_.spawned_outside();
    all.wake_signals = wake_signals_.load(std::memory_order_relaxed);
    all.workers = crew_.size();
    all.idle_workers = lot.waiters();
    all.stacks_refused = stacks_refused_.load(std::memory_order_relaxed);
    for (const auto& pool : stacks) {
        const stack_pool_stats part = pool->stats();
        all.stacks += part.in_use;
        all.stacks_pooled += part.kept;
        all.guard = std::max(all.guard, static_cast<std::uint64_t>(part.guard));
    }
    const auto count = [&](const fiber_record& r) {
        if (!r.life.seems_unfinished()) return;
        ++all.live;
        const wait_kind waits_for = r.waiting_for();
        if (waits_for == wait_kind::stack) ++all.starved;
        switch (state_of(waits_for)) {
            case fiber_state::runnable:
                ++all.runnable;
                break;
            case fiber_state::sleeping:
                ++all.sleeping;
                break;
            case fiber_state::waiting:
                ++all.waiting;
                break;
        }
    };
    for (record_pool::cursor at; visit_records(at, count);) {
    }
    const std::lock_guard hold(threads_lock_);  // no thread is joined meanwhile
    all.workers += joining_;
    all.workers_refused = workers_refused_;
    for (const auto& w : workers) {
        all.worker_busy_ns.push_back(w->busy_ns());
        all.busy_ns += all.worker_busy_ns.back();
    }
    return all;
}

}  // namespace verge::fibers::detail
