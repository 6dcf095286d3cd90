// src/fibers/worker.cpp -- a worker's loop: finding work, switching to fibers, their start and
// their end.

#include "fibers/worker.hpp"

#include "fibers/overflow_report.hpp"
#include "fibers/scheduler_core.hpp"
#include <verge/base/detail/assert.hpp>
#include <verge/sync/cancellation.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

namespace verge::fibers::detail {

using verge::detail::sync::deadline_scope;

namespace {

// How much earlier the timers of sleeps are set, in nanoseconds, as the last worker to update it
// has learned: a start value for new workers, whose wake-up latency is about the same.
std::atomic<duration::rep> lead_of_others{0};

// One writer: a load and a store need no lock prefix.
void add_one(std::atomic<std::uint64_t>& to) noexcept {
    // relaxed, twice: for statistics.
    to.store(to.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Thrown by this_fiber::exit().
struct fiber_exit {};

callback* function_on(const stack& s) noexcept {
    return std::launder(reinterpret_cast<callback*>(s.top - 64));
}

}  // namespace

worker::worker(scheduler_core& core, unsigned index, bool shared)
    : queue(shared),
      core_(core),
      index_(index),
      // relaxed: any value that was ever learned will do.
      lead_(4, duration(lead_of_others.load(std::memory_order_relaxed))),
      seen_switches_(core.options.max_workers) {}

[[noreturn]] void throw_fiber_exit() {
    throw fiber_exit{};
}

// ---- the loop ----------------------------------------------------------------------------------

std::uint64_t worker::busy_ns() const noexcept {
    return busy_before + (thread == thread_state_of::running ? handle.busy_ns() : 0);
}

void worker::run() noexcept {
    install(this);
    const overflow_report report(core_.options.name_overflows);
    here_ = thread_state();
    // The worker may have had another thread before, whose sanitizer context own_ holds.
    std::destroy_at(&own_);
    std::construct_at(&own_);
    // It starts as a searcher: it was started for a ready fiber, and there may be more.
    for (fiber_record* r = find_work(); r != nullptr;) {
        execute(*r);
        r = std::exchange(native_next_, nullptr);
        if (r == nullptr) r = next_ready();
        if (r == nullptr) r = find_work();
    }
    give_back_all();
    install(nullptr);
}

void worker::execute(fiber_record& r) noexcept {
    if (r.kind == stack_kind::native) return run_native(r);
    if (!ensure_started(r)) return;
    current_ = &r;
    add_one(switches);
    own_.switch_to(r.run.context, here_);
    current_ = nullptr;
    settle();
}

// Runs a native fiber on the worker's own stack, to its end: its waits block this thread.
void worker::run_native(fiber_record& r) noexcept {
    callback fn(std::move(r.function));
    std::destroy_at(&r.function);
    std::construct_at(&r.run);
    r.run.blocks = &parker_;
    r.started = true;
    current_ = &r;
    run_function(r, fn);
    fn.reset();
    if (has_deferred_wakeup) core_.flush();
    current_ = nullptr;
    end_of(r);
}

// The oldest ready fiber of this worker.  What others have sent (spawns from outside, sleeps that
// have ended) gets its turn at the end of a round of picks.  A round has fewer picks the longer
// fibers run, so that it takes about round_length; and where they suddenly run longer, what others
// have sent is taken once it was seen for that long.
fiber_record* worker::next_ready() noexcept {
    if (--picks_left_ == 0) [[unlikely]] {
        if (fiber_record* const r = end_round()) return r;
    } else if (picks_left_ % 8 == 0 && !remote.empty()) [[unlikely]] {
        if (fiber_record* const r = take_overdue()) return r;
    }
    fiber_record* const r = queue.pop();
    return r != nullptr ? r : take_remote(*this);
}

[[gnu::noinline]] fiber_record* worker::end_round() noexcept {
    const time_point now = steady_source{}.now();
    const duration took = now - std::exchange(round_began_, now);
    const bool is_long = took >= round_length;
    // Without overflow: took is not smaller than round_length.
    round_ = is_long ? static_cast<std::uint32_t>(round_ / (took / round_length + 1))
                     : std::min(round_ * 2, longest_round);
    round_ = std::max(round_, 1U);
    picks_left_ = round_;
    const std::size_t others = core_.workers.size() - 1;
    // A check of another worker may cost a cache miss: one a round, but all if the round was long.
    for (std::size_t i = 0; i < (is_long ? others : std::min<std::size_t>(others, 1)); ++i)
        steal_from_stalled();
    if (core_.any_starved()) [[unlikely]]
        retry_stack_allocation();
    return take_remote(*this);
}

[[gnu::noinline]] fiber_record* worker::take_overdue() noexcept {
    const time_point now = steady_source{}.now();
    if (remote_seen_ == never) remote_seen_ = now;
    return now - remote_seen_ < round_length ? nullptr : take_remote(*this);
}

fiber_record* worker::take_remote(worker& from) noexcept {
    task_list<fiber_record> taken;
    from.remote.take_all(taken);
    if (&from == this) remote_seen_ = never;
    fiber_record* const first = taken.pop();
    if (!taken.empty()) {
        queue.push_all(taken);
        core_.announce();  // searching workers could not see them
    }
    return first;
}

// A worker that has not switched between two checks is stalled in a long fiber.  If all others are
// busy none of them searches, so a busy worker periodically takes some of the fibers in its queue.
[[gnu::noinline]] void worker::steal_from_stalled() noexcept {
    constexpr std::size_t at_once = 16;
    const std::size_t count = core_.workers.size();
    turn_ = (turn_ + 1) % count;
    if (turn_ == index_) turn_ = (turn_ + 1) % count;
    worker& other = *core_.workers[turn_];
    // relaxed: a hint.
    const std::uint64_t now = other.switches.load(std::memory_order_relaxed);
    if (std::exchange(seen_switches_[turn_], now) != now) return;
    task_list<fiber_record> taken;
    other.remote.take_all(taken);
    bool steals = false;
    while (taken.size() < at_once) {
        fiber_record* const r = other.queue.steal_one();
        if (r == nullptr) break;
        taken.push(r);
        steals = true;
    }
    if (steals) add_one(stolen);
    if (taken.empty()) return;
    queue.push_all(taken);
    core_.announce();  // searching workers could not see them
}

fiber_record* worker::search_all_queues() noexcept {
    if (fiber_record* const r = queue.pop()) return r;
    const std::size_t count = core_.workers.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (fiber_record* const r = take_remote(*core_.workers[(index_ + i) % count])) return r;
    }
    for (std::size_t i = 1; i < count; ++i) {
        if (fiber_record* const r = core_.workers[(index_ + i) % count]->queue.steal_for(queue)) {
            add_one(stolen);
            return r;
        }
    }
    return nullptr;
}

// Searches, then sleeps, until there is work.  nullptr: the thread has to end.
fiber_record* worker::find_work() noexcept {
    parking_lot& lot = core_.lot;
    const auto found = [&](fiber_record* r) {
        lot.stop_searching();
        if (core_.any_work()) core_.announce();
        return r;
    };
    lot.start_searching();
    if (fiber_record* const r = search_all_queues()) return found(r);
    if (core_.options.spin != 0) {
        core_.worker_is_idle();  // before it spins: stop() need not wait for that
        for (unsigned i = 0; i < core_.options.spin && !core_.closing(); ++i) {
            if (core_.any_starved()) [[unlikely]]
                retry_stack_allocation();
            if (fiber_record* const r = search_all_queues()) return found(r);
        }
    }
    time_point let_go = never;  // spurious wake-ups do not postpone it
    for (;;) {
        lot.stop_searching();
        core_.worker_is_idle();
        if (core_.threads_to_join()) core_.join_ended();
        const std::uint32_t seen = lot.prepare();
        fiber_record* r = search_all_queues();
        if (r == nullptr && core_.any_starved()) [[unlikely]] {
            retry_stack_allocation();  // after prepare(): see no_stack_for()
            r = queue.pop();
        }
        bool in_time = true;
        if (r == nullptr && !core_.closing() && !core_.threads_to_join()) {
            if (let_go == never && index_ >= core_.options.min_workers) {
                let_go = deadline_after(steady_source{}.now(), core_.options.idle);
            }
            time_point until = let_go;
            // A worker that could retry stack allocation does not end: the others may be stalled.
            const bool tries = core_.any_starved();
            if (tries) until = core_.next_stack_try();
            add_one(parks);
            in_time = lot.wait(seen, until) || tries;
        }
        lot.leave();
        if (r == nullptr) r = search_all_queues();
        if (r != nullptr) return found(r);
        if (core_.closing()) {
            lot.stop_searching();
            return nullptr;
        }
        if (in_time) continue;
        if (core_.may_end(index_)) return nullptr;  // it has stopped searching
        let_go = never;
    }
}

// ---- switching ---------------------------------------------------------------------------------

// Where to switch from a fiber that stops running: the next ready one, or the worker's own stack.
execution& worker::pick_target() noexcept {
    for (;;) {
        fiber_record* const next = next_ready();
        current_ = nullptr;
        if (next == nullptr) return own_;
        if (next->kind == stack_kind::native) {
            native_next_ = next;
            return own_;
        }
        if (!ensure_started(*next)) continue;
        current_ = next;
        add_one(switches);
        return next->run.context;
    }
}

void worker::leave(fiber_record& self, after what, fiber_record* next) noexcept {
    // A fiber that waits must not delay its batched spawns.
    if (has_deferred_wakeup) core_.flush();
    left_ = &self;
    after_ = what;
    execution* target = &own_;
    if (next != nullptr && next->kind != stack_kind::native && ensure_started(*next)) {
        current_ = next;
        add_one(switches);
        target = &next->run.context;
    } else if (next != nullptr && next->kind == stack_kind::native) {
        current_ = nullptr;
        native_next_ = next;
    } else {
        target = &pick_target();
    }
    self.run.context.switch_to(*target, here_);
    here()->settle();
}

bool worker::yield() noexcept {
    worker* const w = here();
    if (w == nullptr || w->current() == nullptr) return false;
    fiber_record& self = *w->current();
    self.assert_may_suspend();
    if (self.kind == stack_kind::native) return false;
    if (fiber_record* const next = w->next_ready()) w->leave(self, after::yielded, next);
    return true;
}

[[gnu::noinline]] void worker::park(fiber_record& self, waiter::epoch of) noexcept {
    worker& w = *here();
    w.left_epoch_ = of;
    w.leave(self, after::parked, nullptr);
}

[[gnu::noinline]] duration worker::lead_of_sleep(duration length) noexcept {
    const worker* const w = here();
    const duration lead = w != nullptr && w->runs_a_stack() ? w->lead_.lead() : duration::zero();
    return length > 2 * lead ? lead : duration::zero();
}

[[gnu::noinline]] void worker::slept(duration late) noexcept {
    worker* const w = here();
    if (w == nullptr || !w->runs_a_stack()) return;
    w->lead_.woke(late);
    // relaxed: a start value for later workers.
    lead_of_others.store(w->lead_.lead().count(), std::memory_order_relaxed);
}

// Whether what runs here is a fiber that leaves its stack when it waits.
bool worker::runs_a_stack() const noexcept {
    return current_ != nullptr && current()->kind != stack_kind::native;
}

[[gnu::noinline]] void worker::run_child(fiber_record& child) noexcept {
    worker& w = *here();
    if (w.current()->kind == stack_kind::native) return w.make_ready(child);
    w.current()->assert_may_suspend();
    w.leave(*w.current(), after::yielded, &child);
}

[[gnu::noinline]] void worker::finish(fiber_record& self) noexcept {
    worker& w = *here();
    if (w.has_deferred_wakeup) w.core_.flush();
    w.left_ = &self;
    w.after_ = after::finished;
    execution& target = w.pick_target();
    self.run.context.finish(target, w.here_);
}

// Called by the target of every switch: completes the wait, yield or end of the fiber that was
// left.
void worker::settle() noexcept {
    fiber_record* const r = std::exchange(left_, nullptr);
    switch (std::exchange(after_, after::nothing)) {
        case after::nothing:
            return;
        case after::yielded:
            make_ready(*r);
            return;
        case after::parked:
            if (!r->commit(left_epoch_)) make_ready(*r);
            return;
        case after::finished:
            end_of(*r);
            return;
    }
}

void worker::flush_deferred_wakeups() noexcept {
    worker* const w = here();
    if (w->has_deferred_wakeup) w->core_.flush();
}

void worker::make_ready(fiber_record& r) noexcept {
    queue.push(&r, true);
    if (core_.workers.size() > 1) core_.announce();
}

// ---- the beginning and the end of a fiber ------------------------------------------------------

// Gives it a stack, if it has not run yet.  False if there is none: then the fiber waits for one.
bool worker::ensure_started(fiber_record& r) noexcept {
    if (r.started) return true;
    stack* const s = take_stack(r.kind);
    if (s == nullptr) {
        core_.no_stack_for(r);
        return false;
    }
    begin_on(*s, r);
    return true;
}

void worker::begin_on(stack& s, fiber_record& r) noexcept {
    r.own_stack = &s;
    // The function moves to the top of the stack; its place in the record is reused by
    // running_part.
    static_assert(sizeof(callback) <= 64);
    ::new (static_cast<void*>(s.top - 64)) callback(std::move(r.function));
    std::destroy_at(&r.function);
    std::construct_at(&r.run);
    r.run.context.prepare(s.low, s.top - 64, &fiber_main, &r);
    r.started = true;
}

// Makes the fiber ready that has waited longest for such a stack.  False if none does.
bool worker::give_stack_to_starved(stack& s, stack_kind kind) noexcept {
    fiber_record* const r = core_.next_starved(kind);
    if (r == nullptr) return false;
    begin_on(s, *r);
    r->waits_for.store(wait_kind::nothing, std::memory_order_relaxed);  // relaxed: for display
    make_ready(*r);
    return true;
}

// Hands out the free stacks of this worker and then, if it is time, tries to allocate new ones.
[[gnu::noinline]] void worker::retry_stack_allocation() noexcept {
    const bool asks = core_.may_try_for_stacks();
    for (std::size_t i = 0; i < std::size(stacks_); ++i) {
        const auto kind = static_cast<stack_kind>(i);
        while (core_.is_starved(kind) && (asks || !stacks_[i].empty())) {
            stack* const s = take_stack(kind);
            if (s == nullptr) break;
            if (!give_stack_to_starved(*s, kind)) {
                stacks_[i].push(s);
                break;
            }
        }
    }
}

void worker::fiber_main(void* record) noexcept {
    here()->settle();
    fiber_record& self = *static_cast<fiber_record*>(record);
    callback* const fn = function_on(*self.own_stack);
    run_function(self, *fn);
    std::destroy_at(fn);
    finish(self);
}

void worker::run_function(fiber_record& self, callback& fn) noexcept {
    try {
        fn();
    } catch (const fiber_exit&) {
        // this_fiber::exit(): a normal end
    } catch (const forced_unwind&) {
        // a stop, or an inherited deadline: the same
    } catch (...) {
        self.run.error = std::current_exception();
    }
    // What follows are destructors: their waits are not ended.
    const deadline_scope destructors(never, deadline_scope::kind::shields);
    fn.reset();  // the fiber destroys its captures before its end is visible
    if (self.extras() != nullptr) self.destroy_locals();
    if (self.run.error != nullptr && self.life.fail()) {
        self.core->report(std::exchange(self.run.error, {}));
    }
}

// After the fiber has left its stack.
void worker::end_of(fiber_record& r) noexcept {
    if (r.own_stack != nullptr) give_stack(std::exchange(r.own_stack, nullptr), r.kind);
    core_.one_finished();
    r.life.finish();
    core_.release(r);
    counts.finish_one();  // last: a waiter for the end of all may destroy the scheduler then
}

stack* worker::take_stack(stack_kind kind) noexcept {
    const auto index = static_cast<std::size_t>(kind);
    stack_list& own = stacks_[index];
    if (own.empty()) static_cast<void>(core_.stacks[index]->take(stack_batch, own));
    return own.empty() ? nullptr : own.pop();
}

void worker::give_stack(stack* s, stack_kind kind) noexcept {
    const auto index = static_cast<std::size_t>(kind);
    stack_list& own = stacks_[index];
    if (core_.any_starved() && give_stack_to_starved(*s, kind)) [[unlikely]]
        return;
    own.push(s);
    if (own.size() >= 2 * stack_batch) core_.stacks[index]->give_back(own, stack_batch);
}

fiber_record* worker::take_record() {
    if (free_records_.empty()) {
        core_.free_records(used_records_);
        core_.take_records(free_records_, record_batch);
    }
    return free_records_.pop();
}

void worker::give_record(fiber_record* r) noexcept {
    used_records_.push(r);
    if (used_records_.size() >= record_batch) core_.free_records(used_records_);
}

void worker::give_back_all() noexcept {
    for (std::size_t i = 0; i < std::size(stacks_); ++i)
        core_.stacks[i]->give_back(stacks_[i], stacks_[i].size());
    core_.free_records(used_records_);
    core_.free_records(free_records_);
}

}  // namespace verge::fibers::detail
