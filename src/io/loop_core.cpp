// Runs operations, leads the reactor, and wakes threads that sleep.

#include <verge/base/detail/thread_number.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/loop_timers.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace verge::detail::io {

namespace {

// How many operations may run before the reactor is looked at: a look is a system call, which costs
// as much as a few short handlers.
constexpr unsigned reactor_every = 64;
// If they last for longer than this, timers and descriptors wait too long: fewer, the next time.
constexpr duration long_while = std::chrono::microseconds(100);
// A sleep that a post ends sooner than this was not worth its two system calls: before the next one
// the leader looks for posts for a moment, about as long as going to sleep takes.
constexpr duration short_sleep = std::chrono::microseconds(30);
constexpr unsigned spins = 64;

}  // namespace

// A thread inside run().  Its own, but for `next_idle` and `woken`, which are under the loop's
// lock.
struct loop_core::thread_info {
    thread_info(const loop_core& owner, thread_info* around) noexcept : of(&owner), outer(around) {}

    const loop_core* of;
    thread_info* outer;
    op_queue mine;             // operations that only this thread takes
    std::ptrdiff_t work = 0;   // guards made here, not yet added to outstanding_
    std::ptrdiff_t waits = 0;  // begun here, less those that ended here; not yet added to waits_
    bool active = false;       // counted in active_
    unsigned taken = 0;        // from `mine` without a look at anything else
    std::size_t grace = 0;     // operations that may still run after the time is up
    parker sleep;
    thread_info* next_idle = nullptr;
    bool woken = false;
    bool punctual = false;  // it runs for long: worth to change the thread's timer slack
    punctual_scope slack;
};

namespace {

constinit thread_local void* innermost = nullptr;  // the thread_info of this thread's last run()

}  // namespace

loop_core::thread_info* loop_core::find(const loop_core* of) noexcept {
    for (auto* info = static_cast<thread_info*>(innermost); info != nullptr; info = info->outer) {
        if (info->of == of) return info;
    }
    return nullptr;
}

// Brings a thread in, and takes it out again with all it holds, also by an exception.
class loop_core::run_scope {
public:
    run_scope(loop_core& of, thread_info& me) noexcept : of_(of), me_(me) { innermost = &me; }
    ~run_scope() {
        innermost = me_.outer;
        of_.leave(me_);
    }
    run_scope(const run_scope&) = delete;
    run_scope& operator=(const run_scope&) = delete;

private:
    loop_core& of_;
    thread_info& me_;
};

void loop_core::leave(thread_info& me) noexcept {
    lock_.lock();
    settle(me);
    // Before what others posted meanwhile: that is the order it would have run in.
    me.mine.append(queue_);
    queue_.append(me.mine);
    leave_inbox();
    unlock_and_wake();
}

loop_core::loop_core(execution_context& context, threading mode)
    : service(context), mode_(mode), lock_(mode != threading::unsafe) {}

loop_core::~loop_core() {
    late_.wait();
    take_inbox(queue_);  // what came after shutdown(): it is destroyed with the queue
}

void loop_core::shutdown() {
    late_.wait();  // who wakes somebody here uses the lock and the reactor, and no other service
    // Destroying one may post others, and begin others.
    for (;;) {
        // relaxed: nobody else is here.
        if (reactor* const r = reactor_.load(std::memory_order_relaxed)) r->cancel_all();
        op_queue doomed;
        lock_.lock();
        doomed.append(queue_);
        take_inbox(doomed);
        lock_.unlock();
        if (doomed.empty()) return;
    }
}

void loop_core::notify_fork(fork_event event) {
    if (event != fork_event::child) return;
    late_.forget();
    // relaxed: the caller says that no other thread is here.
    if (reactor* const r = reactor_.load(std::memory_order_relaxed)) r->restart_after_fork();
}

reactor& loop_core::use_reactor() {
    // acquire: pairs with the release below.
    if (reactor* const r = reactor_.load(std::memory_order_acquire)) return *r;
    auto made = std::make_unique<reactor>(
        reactor::options{.shards = mode_ == threading::unsafe ? std::size_t{1} : 16,
                         .locks = has_locks(),
                         .expired = &loop_timers::expired});
    thread_info* woken = nullptr;
    lock_.lock();
    // relaxed: under the lock.
    if (reactor_.load(std::memory_order_relaxed) == nullptr) {
        reactor_owner_ = std::move(made);
        // release: who sees the pointer sees the reactor.
        reactor_.store(reactor_owner_.get(), std::memory_order_release);
        woken = pop_idle();  // somebody has to lead
    }
    unlock_and_finish(woken, false);
    return *reactor_owner_;
}

bool loop_core::running_in_this_thread() const noexcept {
    return find(this) != nullptr;
}

// ---- work ---------------------------------------------------------------------------------------

void loop_core::post(operation* op, bool is_continuation) noexcept {
    if (mode_ != threading::safe || is_continuation) {
        if (thread_info* const me = find(this)) {
            me->mine.push(op);
            return;
        }
    }
    if (mode_ == threading::single) {
        if (inbox_.push(op, late_)) wake_sleeper();
        return;
    }
    lock_.lock();
    queue_.push(op);
    unlock_and_wake();
}

void loop_core::post_announced(op_queue& ops, std::ptrdiff_t count) noexcept {
    if (ops.empty()) return;
    if (mode_ != threading::safe) {
        if (thread_info* const me = find(this)) {
            me->mine.append(ops);
            me->waits -= count;
            return;
        }
    }
    if (mode_ == threading::single) {
        if (inbox_.push_announced(ops, late_)) wake_sleeper();
        return;
    }
    lock_.lock();
    queue_.append(ops);
    waits_ -= count;
    unlock_and_wake();
}

void loop_core::work_started() noexcept {
    if (thread_info* const me = find(this)) {
        ++me->work;
        return;
    }
    // relaxed: who starts work from outside has work, or the user's order, to keep us running.
    outstanding_.fetch_add(1, std::memory_order_relaxed);
}

void loop_core::work_finished() noexcept {
    if (thread_info* const me = find(this)) {
        --me->work;
        return;
    }
    bool counted = false;
    // relaxed: a look before the exchange.
    std::ptrdiff_t before = outstanding_.load(std::memory_order_relaxed);
    do {
        // Who reads the 0 may end the loop before we look again.
        if (before == 1 && !std::exchange(counted, true)) late_.enter();
        // release: who reads the 0 sees what we pushed to the inbox before, and that we are late;
        // pairs with the acquire in out_of_work().  relaxed: as above.
    } while (!outstanding_.compare_exchange_weak(before, before - 1, std::memory_order_release,
                                                 std::memory_order_relaxed));
    if (before == 1) stop_if_out_of_work();  // whoever makes it 0 looks again under the lock
    if (counted) late_.leave();
}

// A cell for the thread that asks, or for it and few others.
std::atomic<std::ptrdiff_t>& loop_core::own_cell() noexcept {
    return cells_[thread_number() % cell_count].begun_;
}

void loop_core::wait_begun() noexcept {
    if (thread_info* const me = find(this)) {
        ++me->waits;
        return;
    }
    // relaxed: who begins a wait has work, or the user's order, to keep us running.  What ends that
    // work comes later here, and is seen to: see out_of_work().
    own_cell().fetch_add(1, std::memory_order_relaxed);
}

void loop_core::wait_not_begun() noexcept {
    if (thread_info* const me = find(this)) {
        --me->waits;
        return;
    }
    // relaxed: this thread looks itself, under the lock.  It is not late: the timer that was to be
    // waited for is there until we return, and so is the context.
    own_cell().fetch_sub(1, std::memory_order_relaxed);
    stop_if_out_of_work();
}

void loop_core::stop_if_out_of_work() noexcept {
    thread_info* woken = nullptr;
    bool interrupt = false;
    lock_.lock();
    if (out_of_work()) stop_locked(woken, interrupt);
    unlock_and_finish(woken, interrupt);
}

// What a running thread holds is covered by active_.
bool loop_core::out_of_work() const noexcept {
    // acquire: pairs with the release in work_finished(), for the looks that follow: a thread that
    // posted, or began a wait, and then ended the work that had kept us running is seen to have.
    // Who made it 0 before we took the lock is seen; who does so later looks itself.
    if (active_ != 0 || !queue_.empty() || outstanding_.load(std::memory_order_acquire) != 0 ||
        !inbox_.empty()) {
        return false;
    }
    std::ptrdiff_t pending = waits_;
    for (const cell& c : cells_) {
        // relaxed: a begin that must be seen came before something that we have seen: the end of
        // the last work, above; or the end of another wait, which came by the lock or the inbox.
        // The end of a wait comes after its begin in the same way: none is counted without it.
        pending += c.begun_.load(std::memory_order_relaxed);
    }
    return pending == 0;
}

// ---- waking -------------------------------------------------------------------------------------

// Takes out a parked thread, for finish() to wake without the lock; or nullptr.
loop_core::thread_info* loop_core::pop_idle() noexcept {
    if (idle_ == nullptr) return nullptr;
    thread_info* const first = idle_;
    idle_ = std::exchange(first->next_idle, nullptr);
    first->woken = true;
    return first;
}

// Takes out all, likewise.
void loop_core::stop_locked(thread_info*& to_wake, bool& interrupt) noexcept {
    // relaxed: the lock orders it for those that sleep; for the others it is a sign.
    stopped_.store(true, std::memory_order_relaxed);
    to_wake = std::exchange(idle_, nullptr);
    for (thread_info* t = to_wake; t != nullptr; t = t->next_idle)
        t->woken = true;
    interrupt = std::exchange(blocked_, false);
}

// Unlocks, and wakes the threads that were taken out.  A parked thread stays until it is unparked,
// which touches nothing else; but the leader may come back by itself, and be the last one.
void loop_core::unlock_and_finish(thread_info* woken, bool interrupt) noexcept {
    if (interrupt) late_.enter();
    lock_.unlock();
    finish(woken, interrupt);
    if (interrupt) late_.leave();
}

// Wakes a list of threads: each may be gone as soon as it is woken.
void loop_core::finish(thread_info* woken, bool interrupt) noexcept {
    while (woken != nullptr)
        std::exchange(woken, woken->next_idle)->sleep.unpark();
    // relaxed: it was seen under the lock that it is there.
    if (interrupt) reactor_.load(std::memory_order_relaxed)->interrupt();
}

// After work may have come or gone: unlocks, and wakes one thread if there is something to take or
// no thread leads, or all if no work is left.
void loop_core::unlock_and_wake() noexcept {
    thread_info* woken = nullptr;
    bool interrupt = false;
    // relaxed: set under the lock.
    const bool has_reactor = reactor_.load(std::memory_order_relaxed) != nullptr;
    if (!queue_.empty() || (has_reactor && !leading_)) {
        woken = pop_idle();
        if (woken == nullptr && !queue_.empty()) interrupt = std::exchange(blocked_, false);
        if (spinning_) hint_.store(true, std::memory_order_relaxed);  // relaxed: under the lock
    } else if (idle_ != nullptr || blocked_) {
        if (out_of_work()) stop_locked(woken, interrupt);
    }
    // Nobody sleeps, and there is no work: the next run() is to find it stopped.
    if (woken == nullptr && !interrupt && out_of_work()) stop_locked(woken, interrupt);
    unlock_and_finish(woken, interrupt);
}

// By the thread that pushed first while the loop slept, and has counted itself.
void loop_core::wake_sleeper() noexcept {
    bool interrupt = false;
    lock_.lock();
    thread_info* const woken = pop_idle();
    if (woken == nullptr) interrupt = std::exchange(blocked_, false);
    lock_.unlock();
    finish(woken, interrupt);
    late_.leave();
}

// Takes what is in the inbox, whose work ends by that.
void loop_core::take_inbox(op_queue& to) noexcept {
    waits_ -= inbox_.take(to);
}

// A thread leaves.  Another may sleep, though there should be one only: the next thread that pushes
// is to wake it.
void loop_core::leave_inbox() noexcept {
    if (mode_ != threading::single) return;
    while ((blocked_ || idle_ != nullptr) && !inbox_.fall_asleep())
        take_inbox(queue_);
}

void loop_core::stop() noexcept {
    thread_info* woken = nullptr;
    bool interrupt = false;
    lock_.lock();
    stop_locked(woken, interrupt);
    unlock_and_finish(woken, interrupt);
}

void loop_core::restart() noexcept {
    lock_.lock();
    stopped_.store(false, std::memory_order_relaxed);  // relaxed: as in stop_locked()
    lock_.unlock();
}

// ---- running ------------------------------------------------------------------------------------

std::size_t loop_core::run(std::size_t most, time_point until) {
    return run_some(most, until, true);
}

std::size_t loop_core::poll(std::size_t most) {
    return run_some(most, never, false);
}

// Inlined, with the rest out of line: a call here costs a posted function a third of its time.
inline operation* loop_core::next(thread_info& me, time_point until, bool block) {
    if (stopped()) return nullptr;
    if (until != never) {
        if (me.grace > 0) {
            --me.grace;
        } else if (steady_source{}.now() >= until) {
            return nullptr;
        }
    }
    // The quick way: this thread is active already, and takes what only it can take.
    if (mode_ != threading::safe && me.active && me.taken < every_) {
        if (me.mine.empty()) me.waits -= inbox_.take(me.mine);
        if (operation* const op = me.mine.pop()) {
            ++me.taken;
            // The next one may be in another processor's cache.  (Not nullptr: that is slow.)
            if (!me.mine.empty()) __builtin_prefetch(me.mine.front());
            return op;
        }
    }
    return next_in_turn(me, until, block);
}

std::size_t loop_core::run_some(std::size_t most, time_point until, bool block) {
    lock_.lock();
    // Inside a handler: what the outer run() keeps for itself is to be found by this one.
    if (thread_info* const outer = find(this)) queue_.append(outer->mine);
    if (out_of_work()) {
        thread_info* woken = nullptr;
        bool interrupt = false;
        stop_locked(woken, interrupt);
        unlock_and_finish(woken, interrupt);
        return 0;
    }
    lock_.unlock();

    thread_info me(*this, static_cast<thread_info*>(innermost));
    me.punctual = most > 1;
    const run_scope scope(*this, me);
    std::size_t count = 0;
    while (count < most) {
        operation* const op = next(me, until, block);
        if (op == nullptr) break;
        if (count != std::numeric_limits<std::size_t>::max()) ++count;
        op->complete(this);
    }
    return count;
}

// The way through the lock.
[[gnu::noinline]] operation* loop_core::next_in_turn(thread_info& me, time_point until,
                                                     bool block) {
    lock_.lock();
    settle(me);
    operation* const op = next_slowly(me, until, block);
    if (op == nullptr) {
        lock_.unlock();
        return nullptr;
    }
    ++active_;
    me.active = true;
    // relaxed: set under the lock.
    const bool somebody_to_lead = !leading_ && reactor_.load(std::memory_order_relaxed) != nullptr;
    thread_info* woken = nullptr;
    if (!queue_.empty() || somebody_to_lead) woken = pop_idle();
    unlock_and_finish(woken, false);
    return op;
}

// The thread is out of its handler, and what it announced counts for all.
void loop_core::settle(thread_info& me) noexcept {
    if (std::exchange(me.active, false)) --active_;
    waits_ += std::exchange(me.waits, 0);
    if (me.work == 0) return;
    // relaxed: under the lock.
    outstanding_.fetch_add(std::exchange(me.work, 0), std::memory_order_relaxed);
}

operation* loop_core::next_slowly(thread_info& me, time_point until, bool block) {
    bool looked = false;
    for (;;) {
        // One thread takes all; else what it kept back becomes everybody's.
        op_queue& from = mode_ != threading::safe ? me.mine : queue_;
        if (mode_ != threading::safe) {
            me.mine.append(queue_);
            take_inbox(me.mine);
        } else {
            queue_.append(me.mine);
        }
        if (stopped()) return nullptr;
        since_reactor_ += std::exchange(me.taken, 0U);
        // relaxed: set under the lock.
        const bool can_lead = !leading_ && reactor_.load(std::memory_order_relaxed) != nullptr;
        const bool overdue = can_lead && since_reactor_ >= every_;
        if (!overdue && !from.empty()) {
            ++since_reactor_;
            return from.pop();
        }
        if (from.empty()) {
            if (out_of_work()) {
                thread_info* woken = nullptr;
                bool interrupt = false;
                stop_locked(woken, interrupt);
                unlock_and_finish(woken, interrupt);
                lock_.lock();
                return nullptr;
            }
            if (!block && (looked || !can_lead)) return nullptr;
            if (until != never && steady_source{}.now() >= until) return nullptr;
        }
        if (can_lead) {
            lead(me, until, block);
            looked = true;
        } else {
            park(me, until);
        }
    }
}

// Runs the reactor once, without the lock.
void loop_core::lead(thread_info& me, time_point until, bool block) {
    const bool empty = mode_ != threading::safe ? me.mine.empty() : queue_.empty();
    leading_ = true;
    if (block && empty &&
        ((spin_next_ && spin_for_posts()) ||
         (mode_ == threading::single && !inbox_.fall_asleep()))) {
        leading_ = false;
        return;
    }
    blocked_ = block && empty;
    const time_point now = steady_source{}.now();
    if (!empty && last_look_ != time_point{}) {
        const bool slow = now - last_look_ > long_while;
        every_ = slow ? std::max(every_ / 4, 1U) : std::min(every_ * 2, reactor_every);
    }
    last_look_ = empty ? time_point{} : now;
    const time_point limit = blocked_ ? until : time_point::min();
    thread_info* woken = nullptr;
    if (!empty && mode_ == threading::safe) woken = pop_idle();
    const bool may_sleep = blocked_;
    // Nobody else sees what this thread holds: it stays active, or that would not count as work.
    const std::ptrdiff_t holds = mode_ != threading::safe && !empty ? 1 : 0;
    active_ += holds;
    unlock_and_finish(woken, false);
    ready_sink sink;
    sink.loop = this;
    // relaxed: set under the lock.
    reactor_.load(std::memory_order_relaxed)->wait(limit, &sink, me.punctual ? &me.slack : nullptr);
    const bool soon = may_sleep && sink.count == 0 && steady_source{}.now() - now < short_sleep;
    lock_.lock();
    active_ -= holds;
    leading_ = false;
    blocked_ = false;
    if (may_sleep) spin_next_ = soon && !(queue_.empty() && inbox_.empty());
    since_reactor_ = 0;
    me.grace = sink.count > 0 ? sink.count - 1 : 0;  // one is taken now
    waits_ -= sink.finished;
    (mode_ != threading::safe ? me.mine : queue_).append(sink.ready);
}

// Whether something was posted within a moment.  Unlocks meanwhile.
bool loop_core::spin_for_posts() noexcept {
    spinning_ = true;
    hint_.store(false, std::memory_order_relaxed);  // relaxed: under the lock
    lock_.unlock();
    for (unsigned i = 0; i < spins; ++i) {
        // relaxed: what it is a sign of is looked at under the lock.
        if (hint_.load(std::memory_order_relaxed) || !inbox_.empty()) break;
        spin_platform::pause();
    }
    lock_.lock();
    spinning_ = false;
    return !queue_.empty() || !inbox_.empty() || stopped();
}

// Sleeps without the lock until woken, or `until`.
void loop_core::park(thread_info& me, time_point until) noexcept {
    if (mode_ == threading::single && !inbox_.fall_asleep()) return;
    me.next_idle = idle_;
    me.woken = false;
    idle_ = &me;
    lock_.unlock();
    const bool unparked = me.sleep.park(until);
    lock_.lock();
    if (me.woken) {
        // Whoever took us out of the list unparks us: that must not come when we are gone.
        if (unparked) return;
        lock_.unlock();
        static_cast<void>(me.sleep.park(never));
        lock_.lock();
        return;
    }
    thread_info** at = &idle_;
    while (*at != &me)
        at = &(*at)->next_idle;
    *at = me.next_idle;
}

}  // namespace verge::detail::io
