// verge/driver/timer_service.hpp -- thread-safe sharded timers, without a thread or a clock.
//
//     struct my_loop : verge::timer_waker {                       // examples/own_loop.cpp
//         void wake_before(verge::time_point) noexcept override { interrupt(); }
//     };
//     verge::timer_service timers(loop);
//
//     auto id = timers.arm(deadline, [] { ... });                 // any thread
//     timers.cancel(id);                                          // any thread
//
//     for (;;) {                                                  // the loop's own thread
//         wait_for_events_until(timers.prepare_wait());
//         timers.run_due(now());
//     }
//
// It is for writers of event loops: timer_thread, the event loop and the fiber scheduler are built
// on it.  Each thread arms its timers in one shard, so that threads contend only if they share a
// shard, and a thread takes its own shard's lock without an atomic read-modify-write
// (verge/base/detail/biased_lock.hpp).  A thread that uses another thread's shard, such as the
// waiter, pays one membarrier; options::locks turns that off.  A thread that finds a shard locked
// spins for about 5 us, then yields, then sleeps for 20 us to 1 ms at a time until it gets the
// lock: that happens only if the kernel has taken the processor away from the holder.
//
// Not the right tool for a program that just wants a function called later (use timer_thread), nor
// for one thread alone (use local_timers).
//
// How the waiter learns of an earlier deadline, without a global lock
//
//     arm:     nearest[shard] = d  (if d is the shard's earliest);  if (d < wake_at) wake_before(d)
//     waiter:  wake_at = m;  read every nearest again;  one is < m ? start over : sleep until m
//
//   Both sides store, then load the other's word, all seq_cst: one of them sees the other.  So an
//   earlier deadline always shortens the sleep.  collect() sets wake_at to 0, so that no thread
//   wakes a waiter that is awake.  tests/model/timer_service_model.cpp explores this source.

#pragma once

#include <verge/base/callback.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/detail/thread_number.hpp>
#include <verge/base/parker.hpp>
#include <verge/base/timer_stats.hpp>
#include <verge/driver/detail/running_scope.hpp>
#include <verge/driver/detail/timer_shard.hpp>
#include <verge/driver/due_timer.hpp>
#include <verge/driver/timer_service_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace verge {

/// The interface of a waiter: a loop that sleeps until the next timer.
class timer_waker {
public:
    virtual ~timer_waker() = default;

    /// A timer was armed for `deadline`, earlier than what prepare_wait() last returned: the sleep
    /// must end by then.  Called by any thread, without a lock; may be called needlessly.
    virtual void wake_before(time_point deadline) noexcept = 0;

protected:
    timer_waker() = default;
    timer_waker(const timer_waker&) = delete;
    timer_waker& operator=(const timer_waker&) = delete;
};

/// The platform of a timer service.  The model tests supply their own.
struct service_platform : futex_platform {
    using lock = detail::biased_lock;
    using running_scope = detail::driver::running_scope;
    static unsigned thread_number() noexcept { return detail::thread_number(); }
    static void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
        wait(word, value, never);
    }
};

/// Timers that any thread arms and cancels, and one waiter at a time collects.
///
/// A timer carries a Payload (a callback, a fiber's name), nothrow move constructible.  It is moved
/// into its slot, and destroyed there; outside the lock, if either runs user code.
///
/// Guarantees, each with a test of that name in tests/unit/driver/timer_service_test.cpp:
///   NeverCollectsEarly        collect(now) gives out timers with deadline <= now only.
///   ExactlyOneEnd             a timer is run, or cancelled, or dropped; never two of these.
///   KeepsDeadlineOrder        by deadline; equal deadlines in the order one thread armed them.
///   FreesPayloadOnCancel      when cancel() returns `cancelled`, the payload is destroyed.
///   EarlierDeadlineWakes      arming below what prepare_wait() returned calls wake_before().
///   AFarDeadlineIsLookedAtEarly  a deadline slightly before it then causes no wake-up.
///   StaleIdsAreHarmless       an id of a timer that is over, or of another object, names nothing.
///   NothingIsArmedAfterClose  close() drops what has not begun, and refuses the rest.
///
/// Thread safety: all members from any thread, but prepare_wait(), collect() and run_due() from one
/// at a time, and construction and destruction alone.
/// Exceptions: arming throws std::bad_alloc, and then nothing was armed.
template <class Payload, class Platform = service_platform>
class basic_timer_service {
    static_assert(std::is_nothrow_move_constructible_v<Payload>);
    using shard = detail::driver::timer_shard<Payload, Platform>;
    using slot_record = detail::slot_registry::record;

public:
    using options = timer_service_options;

    /// A timer whose callback is running: between begin() and end() or again().
    class running_timer {
    public:
        explicit operator bool() const noexcept { return entry_ != nullptr; }
        [[nodiscard]] Payload& payload() const noexcept { return entry_->payload; }

    private:
        friend class basic_timer_service;
        typename shard::entry* entry_ = nullptr;
        std::uint32_t shard_ = 0;
    };

    /// Throws std::invalid_argument for a number of shards that is not in 1 .. 1024.
    explicit basic_timer_service(timer_waker& waker, const options& opts = {})
        : waker_(waker), shard_count_(checked(opts.shards)), max_timers_(opts.max_timers) {
        shard::prepare(opts.locks);
        shards_ = std::make_unique<shard[]>(shard_count_);
        for (std::size_t i = 0; i < shard_count_; ++i) {
            shards_[i].start(to_tick(opts.start), opts.locks, this);
            const std::size_t share =
                opts.reserve / shard_count_ + (opts.reserve % shard_count_ != 0 ? 1 : 0);
            shards_[i].adopt(shard::pool::make_chunks(share));
        }
    }

    /// Drops what is pending.
    ~basic_timer_service() { close(); }

    basic_timer_service(const basic_timer_service&) = delete;
    basic_timer_service& operator=(const basic_timer_service&) = delete;

    /// What becomes of a timer whose callback dispatch_due() has run.
    enum class after_run : std::uint8_t {
        over,     ///< It ends: its payload is destroyed.
        settled,  ///< The function has called again() or end().
        forked,   ///< This is a forked child: nothing may be touched, and dispatch_due() returns.
    };

    // ---- any thread -----------------------------------------------------------------------------

    /// Arms a timer.  The id is empty if max_timers have not ended, or after close().
    timer_id arm(time_point deadline, Payload payload) {
        return emplace(deadline, std::move(payload));
    }

    /// arm, with a payload constructed from `args` in its slot.
    template <class... Args>
    requires std::is_nothrow_constructible_v<Payload, Args...> timer_id emplace(time_point deadline,
                                                                                Args&&... args) {
        return arm_by(
            [at = to_tick(deadline)](auto& wheel, auto& entry) { wheel.arm_at(entry, at); },
            std::forward<Args>(args)...);
    }

    /// emplace, for the time point that when() returns.  It reads a clock, which is slow: under the
    /// shard's lock if that is biased to the caller, so that the read overlaps with the other work;
    /// else before the lock is taken.
    template <class When, class... Args>
    requires std::is_nothrow_constructible_v<Payload, Args...> &&
        std::is_nothrow_invocable_r_v<time_point, When>
            timer_id emplace_by(When when, Args&&... args) {
        const unsigned self = Platform::thread_number();
        shard& s = shard_for(self);
        if (s.is_biased_to(self)) [[likely]] {
            return arm_in(
                s, self, [when](auto& wheel, auto& entry) { wheel.arm_at(entry, to_tick(when())); },
                std::forward<Args>(args)...);
        }
        return arm_in(
            s, self, [at = to_tick(when())](auto& wheel, auto& entry) { wheel.arm_at(entry, at); },
            std::forward<Args>(args)...);
    }

    /// Arms a timer for a time in [earliest, latest] that timers with slack share.
    timer_id arm_between(time_point earliest, time_point latest, Payload payload) {
        // A range until `never` ends at the last time that comes.
        const tick to = earliest == never ? never_tick : to_tick(std::min(latest, last_time));
        return arm_by([from = to_tick(earliest), to](
                          auto& wheel, auto& entry) { wheel.arm_in_range(entry, from, to); },
                      std::move(payload));
    }

    /// Ends a timer that has not begun.  `running`: it will not run again, if it is periodic.
    cancel_result cancel(timer_id id) noexcept {
        const slot_record* const record = shard::pool::record_of(id.value());
        if (record == nullptr) return cancel_result::gone;
        shard* const s = shard_of(*record);
        if (s == nullptr) return cancel_result::gone;
        const cancel_result result = s->cancel(Platform::thread_number(), id, *record);
        if (result == cancel_result::cancelled) count_out();
        return result;
    }

    /// As cancel; if it is running, or another thread is destroying its payload, waits until that
    /// has ended and returns `gone`: then nothing of the timer is left.  Called from its callback
    /// or from the destructor of its payload, returns `running`.
    cancel_result cancel_and_wait(timer_id id) noexcept {
        shard* const s = shard_of(id);  // once: when the timer has ended, its id may name none
        if (s == nullptr) return cancel_result::gone;
        const cancel_result result = cancel(id);
        if (result == cancel_result::cancelled) return result;
        if (Platform::running_scope::inside_timer(id)) return cancel_result::running;
        s->wait_for(id);
        return cancel_result::gone;
    }

    /// Gives a timer that has not begun a new deadline; the id stays.
    reschedule_result rearm(timer_id id, time_point deadline) noexcept {
        shard* const s = shard_of(id);
        if (s == nullptr) return reschedule_result::gone;
        tick news = never_tick;
        const reschedule_result result = s->rearm(id, to_tick(deadline), news);
        tell(news);
        return result;
    }

    /// The deadline of a timer that has not begun.
    [[nodiscard]] std::optional<time_point> deadline_of(timer_id id) const noexcept {
        const shard* const s = shard_of(id);
        if (s == nullptr) return std::nullopt;
        const std::optional<tick> deadline = s->deadline_of(id);
        if (!deadline) return std::nullopt;
        return to_time(*deadline);
    }

    // ---- the waiter -----------------------------------------------------------------------------

    /// The time to sleep until; `never` if nothing is armed.  From now until the next collect(),
    /// wake_before() is called for anything earlier.
    ///
    /// If `now` is given and the first deadline is more than 1 s away, returns 1/64 of the distance
    /// earlier.  Then timers armed for slightly before it cause no wake-up each; one needless
    /// wake-up costs less.  The next call checks whether the first timer was cancelled meanwhile.
    [[nodiscard]] time_point prepare_wait(time_point now = never) noexcept {
        if (next_ != last_) return to_time(batch_[next_].deadline);  // left over by run_due()
        const tick now_tick = to_tick(now);
        nearest_two two = nearest();
        if (sent_early_) {
            while (two.first != never_tick && shards_[two.index].refresh_nearest())
                two = nearest();
        }
        tick first = two.first;
        for (;;) {
            const tick until = early_bound(first, now_tick);
            // seq_cst: before the loads of every nearest; pairs with the load in tell().
            wake_at_.store(until, std::memory_order_seq_cst);
            const tick seen = nearest().first;
            if (seen >= until) {
                sent_early_ = until != first;
                return to_time(until);
            }
            first = seen;
        }
    }

    /// Takes the timers due by `now`, in order, at most `room`.  Call begin() or drop() for each.
    std::size_t collect(time_point now, due_timer* out, std::size_t room) noexcept {
        // relaxed: a thread that reads 0 has stored its nearest before prepare_wait() stores
        // wake_at again, which then sees it.
        wake_at_.store(0, std::memory_order_relaxed);
        const tick now_tick = to_tick(now);
        if (next_ != last_) return collect_left_over(now_tick, out, room);
        if (room == 0) return 0;
        for (;;) {
            const auto [first, second, index] = nearest();
            if (first > now_tick || first == never_tick) return 0;
            // Up to the next shard's earliest, so that the order holds over all shards.
            const tick until = second < now_tick ? second : now_tick;
            const std::size_t count = shards_[index].collect(until, index, out, room);
            if (count > 0) return count;
        }
    }

    /// Marks the timer as running.  False if it has ended, or was rearmed, since it was collected.
    [[nodiscard]] running_timer begin(const due_timer& due) noexcept {
        running_timer timer;
        if (due.shard >= shard_count_) return timer;  // of another service
        timer.entry_ = shards_[due.shard].begin(due);
        timer.shard_ = due.shard;
        return timer;
    }

    /// Destroys the payload, as part of the callback, and ends the timer.
    void end(running_timer timer) noexcept {
        const typename Platform::running_scope inside(this, id_of(timer));
        count_out();
        shards_[timer.shard_].end(*timer.entry_);
    }

    /// end() of one timer and begin() of the next, under one lock if both are of one shard.
    [[nodiscard]] running_timer end_and_begin(running_timer timer, const due_timer& due) noexcept {
        if (timer.shard_ != due.shard) {
            end(timer);
            return begin(due);
        }
        const typename Platform::running_scope inside(this, id_of(timer));
        count_out();
        timer.entry_ = shards_[due.shard].end_and_begin(*timer.entry_, due);
        return timer;
    }

    /// Arms it again, with its payload and its id; or ends it, if it was cancelled meanwhile.
    /// `armed_as`, which may be part of the payload, is set to the deadline that due_timer will
    /// have: not before the shard's now.
    void again(running_timer timer, time_point deadline, tick& armed_as) noexcept {
        tick news = never_tick;
        if (!shards_[timer.shard_].again(*timer.entry_, to_tick(deadline), armed_as, news)) {
            end(timer);
            return;
        }
        tell(news);
    }

    /// Ends a timer that was collected and will not be run.  False if it has ended already.
    bool drop(const due_timer& due) noexcept {
        if (due.shard >= shard_count_ || !shards_[due.shard].drop(due)) return false;
        count_out();
        return true;
    }

    /// Collects the timers due by `now`, and for each calls run(timer, due) between begin() and
    /// end(), at most `budget` times.  Returns how many it ran.  The one loop over due timers: all
    /// that is built on the service runs its timers by it.
    ///
    /// What `run` returns says what becomes of the timer (void: after_run::over).  A timer that a
    /// callback arms for `now` or before is due in the same call: a budget bounds that.  An
    /// exception propagates; that timer is over, and the next call continues after it.
    template <std::invocable<running_timer, const due_timer&> Run>
    std::size_t dispatch_due(time_point now, std::size_t budget, Run&& run) {
        const tick now_tick = to_tick(now);
        std::size_t count = 0;
        owed_end ended(*this);
        while (count < budget) {
            if (next_ == last_) {
                const std::size_t room = budget - count < batch_size ? budget - count : batch_size;
                last_ = collect(now, batch_, room);
                next_ = 0;
                if (last_ == 0) break;
            } else if (batch_[next_].deadline > now_tick) {  // left over by a call with a later now
                break;
            }
            const due_timer due = batch_[next_++];
            const running_timer timer = ended.then_begin(due);
            if (!timer) continue;
            ++count;
            ended.owe(timer);
            const typename Platform::running_scope inside(this, due.id);
            if constexpr (std::is_void_v<
                              std::invoke_result_t<Run&, running_timer, const due_timer&>>) {
                run(timer, due);
            } else {
                const after_run then = run(timer, due);
                if (then != after_run::over) ended.forgive();
                if (then == after_run::forked) break;
            }
        }
        return count;
    }

    /// dispatch_due for a function of the payload.
    template <std::invocable<Payload&> Run>
    std::size_t run_due(time_point now, Run&& run, std::size_t budget = no_budget) {
        return dispatch_due(now, budget, [&](running_timer timer, const due_timer&) {
            static_cast<void>(run(timer.payload()));
        });
    }

    /// run_due for payloads that are called.
    std::size_t run_due(time_point now, std::size_t budget = no_budget) {
        return run_due(
            now, [](Payload& payload) { payload(); }, budget);
    }

    // ---- the end, and the rest ------------------------------------------------------------------

    /// Drops timers that have not begun, and refuses new ones.  Does not wait for running ones.
    void close() noexcept {
        for (std::size_t i = 0; i < shard_count_; ++i)
            shards_[i].close();
    }

    /// Waits until no callback is running and no payload is being destroyed, except those that the
    /// calling thread is inside of.
    void wait_idle() noexcept {
        for (std::size_t i = 0; i < shard_count_; ++i) {
            std::size_t own = 0;
            timer_id last;  // a callback and the destructor of its payload are one timer
            Platform::running_scope::for_each_inside(this, [&](timer_id id) {
                if (id != std::exchange(last, id) && shard_of(id) == &shards_[i]) ++own;
            });
            shards_[i].wait_idle(own);
        }
    }

    /// Returns memory that no timer uses to the system.  Holds each shard's lock for about 8 ns per
    /// timer of its peak size.
    void trim() noexcept {
        for (std::size_t i = 0; i < shard_count_; ++i)
            const auto idle = shards_[i].trim();
    }

    [[nodiscard]] timer_stats stats() const noexcept {
        timer_stats sum;
        for (std::size_t i = 0; i < shard_count_; ++i)
            shards_[i].add_stats(sum);
        return sum;
    }

private:
    struct nearest_two {
        tick first = never_tick;   // the least nearest of all shards
        tick second = never_tick;  // the least of the others
        std::uint32_t index = 0;   // the shard of `first`
    };

    // A timer whose callback has returned, and whose end() is still to come: end() and the next
    // begin() then take one lock.
    class owed_end {
    public:
        explicit owed_end(basic_timer_service& of) noexcept : service_(of) {}
        ~owed_end() {
            if (timer_) service_.end(timer_);
        }
        owed_end(const owed_end&) = delete;
        owed_end& operator=(const owed_end&) = delete;

        running_timer then_begin(const due_timer& due) noexcept {
            if (!timer_) return service_.begin(due);
            return service_.end_and_begin(std::exchange(timer_, {}), due);
        }
        void owe(running_timer timer) noexcept { timer_ = timer; }
        void forgive() noexcept { timer_ = {}; }

    private:
        basic_timer_service& service_;
        running_timer timer_;
    };

    static constexpr std::size_t batch_size = 64;

    static std::size_t checked(std::size_t shards) {
        if (shards < 1 || shards > 1024) {
            throw std::invalid_argument("verge::timer_service: shards must be 1 to 1024");
        }
        return shards;
    }

    // Ticks are nanoseconds of CLOCK_MONOTONIC; times before its epoch are past anyway.
    static tick to_tick(time_point when) noexcept { return nanosecond_ticks.ticks_ceil(when); }
    static time_point to_time(tick at) noexcept { return nanosecond_ticks.time_of(at); }

    // `place` by value: a deadline is then passed in a register, without a store to the stack.
    template <class Place, class... Args>
    timer_id arm_by(Place place, Args&&... args) {
        const unsigned self = Platform::thread_number();
        return arm_in(shard_for(self), self, place, std::forward<Args>(args)...);
    }

    template <class Place, class... Args>
    timer_id arm_in(shard& s, unsigned self, Place place, Args&&... args) {
        if (!(detail::driver::has_trivial_move(args) && ...)) [[unlikely]]
            return arm_unlocked_in(s, self, place, std::forward<Args>(args)...);
        return arm_with(s, [&] {
            return s.arm(
                self, [&](void* at) noexcept { ::new (at) Payload(std::forward<Args>(args)...); },
                place);
        });
    }

    // For a payload whose move runs user code, which must not run under a lock.
    template <class Place, class... Args>
    [[gnu::noinline]] timer_id arm_unlocked_in(shard& s, unsigned self, Place place,
                                               Args&&... args) {
        return arm_with(s, [&] {
            return s.arm_unlocked(
                self, [&](void* at) noexcept { ::new (at) Payload(std::forward<Args>(args)...); },
                place);
        });
    }

    // Retries until there is a free slot.
    template <class Try>
    timer_id arm_with(shard& s, Try&& attempt) {
        if (!count_in()) {
            s.count_rejected();
            return {};
        }
        for (;;) {
            const typename shard::arm_result result = attempt();
            if (result.id) [[likely]] {
                tell(result.news);
                return result.id;
            }
            if (result.closed) {
                count_out();
                return {};
            }
            grow(s);
        }
    }

    // Allocates slots for more timers, outside the lock.
    [[gnu::noinline]] void grow(shard& s) {
        try {
            s.adopt(shard::pool::make_chunks(s.growth()));
        } catch (...) {
            count_out();
            throw;
        }
    }

    [[nodiscard]] shard& shard_for(unsigned number) const noexcept {
        const auto count = static_cast<unsigned>(shard_count_);
        // No division for a power of 2: it would take 1/10 of the time of arming.
        return shards_[(count & (count - 1)) == 0 ? number & (count - 1) : number % count];
    }

    static timer_id id_of(running_timer timer) noexcept {
        return timer_id(shard::pool::id_of(*timer.entry_));
    }

    // collect(), from what a run_due() has collected and not run.
    std::size_t collect_left_over(tick now, due_timer* out, std::size_t room) noexcept {
        std::size_t count = 0;
        while (count < room && next_ != last_ && batch_[next_].deadline <= now) {
            out[count++] = batch_[next_++];
        }
        return count;
    }

    // Wakes the waiter, if it may sleep beyond `news`.
    void tell(tick news) noexcept {
        if (news == never_tick) return;
        // seq_cst: after the store of nearest; pairs with the store in prepare_wait().
        if (news < wake_at_.load(std::memory_order_seq_cst)) waker_.wake_before(to_time(news));
    }

    static tick early_bound(tick at, tick now) noexcept {
        constexpr tick near_by = 1'000'000'000;
        if (at == never_tick || at <= now || at - now <= near_by) return at;
        return at - (at - now) / 64;
    }

    [[nodiscard]] nearest_two nearest() const noexcept {
        nearest_two two;
        for (std::uint32_t i = 0; i < shard_count_; ++i) {
            const tick at = shards_[i].nearest();
            if (at < two.first) {
                two.second = two.first;
                two.first = at;
                two.index = i;
            } else if (at < two.second) {
                two.second = at;
            }
        }
        return two;
    }

    [[nodiscard]] shard* shard_of(timer_id id) const noexcept {
        const slot_record* const record = shard::pool::record_of(id.value());
        return record == nullptr ? nullptr : shard_of(*record);
    }

    // The shard that holds the slots of this record, if it is one of ours.
    [[nodiscard]] shard* shard_of(const slot_record& record) const noexcept {
        // The address is range-checked before it is used, and checked again under the shard's lock.
        const void* const owner = record.owned_by();
        const auto offset = reinterpret_cast<std::uintptr_t>(owner) -
                            reinterpret_cast<std::uintptr_t>(shards_.get());
        if (offset >= shard_count_ * sizeof(shard)) return nullptr;
        return static_cast<shard*>(const_cast<void*>(owner));
    }

    // The counter is a contended word, so timers are counted only if there is a limit.
    bool count_in() noexcept {
        if (max_timers_ == options::unlimited) return true;
        // relaxed: a number; it orders nothing.
        if (live_.fetch_add(1, std::memory_order_relaxed) < max_timers_) return true;
        live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: as above
        return false;
    }
    void count_out() noexcept {
        if (max_timers_ == options::unlimited) return;
        live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: as in count_in()
    }

    template <class T>
    using atomic = typename Platform::template atomic<T>;

    timer_waker& waker_;
    const std::size_t shard_count_;
    const std::size_t max_timers_;
    std::unique_ptr<shard[]> shards_;
    // Collected by run_due() and not yet run: batch_[next_] to batch_[last_ - 1].  Written by the
    // waiter.
    due_timer batch_[batch_size];
    std::size_t next_ = 0;
    std::size_t last_ = 0;
    bool sent_early_ = false;  // the last prepare_wait() returned an earlier time than the deadline
    // The end of the waiter's sleep; 0 while it is awake.  Written by the waiter.
    alignas(64) atomic<tick> wake_at_{0};
    // Timers that have not ended, if there is a limit.  Written by all threads.
    alignas(64) atomic<std::size_t> live_{0};
};

/// Timers with callbacks.
using timer_service = basic_timer_service<callback>;

}  // namespace verge
