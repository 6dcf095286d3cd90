// verge/queue/timer_heap.hpp -- an indexed 4-ary heap of timers, for keys that are not ticks.
//
//     struct event : verge::heap_timer<double> { ... };           // simulated seconds
//     verge::timer_heap<event> agenda(0.0);
//
//     agenda.arm_at(arrival, 1.25);
//     agenda.advance(2.0, [](event& e) { e.happen(); });
//
// Its key is anything ordered by <: ticks, seconds as double, a time_point of the user's own clock.
// Arm, re-arm and cancel cost O(log n).  Equal keys fire in the order of arming.  A timer is
// intrusive: the user owns it, and the heap stores keys and pointers in one array.
//
// Not the right tool when deadlines are ticks: timing_wheel does the same work several times faster
// and allocates nothing.

#pragma once

#include <verge/base/detail/assert.hpp>
#include <verge/queue/tick.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace verge {

/// What a heap needs to know about a key besides its order.  Specialize it for your own key type.
template <class Key>
struct timer_key_traits {
    /// Whether a timer armed for this key is never due.
    static constexpr bool is_never(const Key&) noexcept { return false; }

    template <class Delay>
    static constexpr Key after(const Key& now, const Delay& delay) {
        return now + delay;
    }

    /// The key in [earliest, latest] for a timer with slack.
    static constexpr Key in_range(const Key&, const Key& latest) { return latest; }

    /// `now`, or the largest key that can be due if `now` is never.
    static constexpr Key as_now(const Key& now) { return now; }
};

/// Ticks: never_tick is never due, sums saturate, slack goes to the roundest tick.  A negative
/// delay counts as 0.
template <>
struct timer_key_traits<tick> {
    static constexpr bool is_never(tick key) noexcept { return key == never_tick; }
    template <std::integral Delay>
    static constexpr tick after(tick now, Delay delay) noexcept {
        return tick_after(now, delay);
    }
    static constexpr tick in_range(tick earliest, tick latest) noexcept {
        return roundest_tick(earliest, latest);
    }
    static constexpr tick as_now(tick now) noexcept { return is_never(now) ? now - 1 : now; }
};

/// Floating point: infinity and NaN are never due.  A "now" that is NaN counts as the lowest time,
/// so that advancing to it changes nothing.
template <std::floating_point Key>
struct timer_key_traits<Key> {
    static constexpr bool is_never(Key key) noexcept {
        return !(key < std::numeric_limits<Key>::infinity());
    }
    static constexpr Key after(Key now, Key delay) noexcept { return now + delay; }
    static constexpr Key in_range(Key, Key latest) noexcept { return latest; }
    static constexpr Key as_now(Key now) noexcept {
        using limits = std::numeric_limits<Key>;
        if (now != now) return limits::lowest();
        return is_never(now) ? limits::max() : now;
    }
};

/// Time points: max() is never due, and sums saturate there.  A negative delay counts as 0.
template <class Clock, class Duration>
struct timer_key_traits<std::chrono::time_point<Clock, Duration>> {
    using key = std::chrono::time_point<Clock, Duration>;
    static constexpr bool is_never(key at) noexcept { return at == key::max(); }
    static constexpr key after(key now, Duration delay) noexcept {
        if (delay > Duration::zero() && now > key::max() - delay) return key::max();
        if (delay < Duration::zero()) return now;
        return now + delay;
    }
    // A delay in other units is rounded up, and saturates: hours::max() may not fit into the key's
    // units.  A long double holds every 64-bit count.
    template <class Rep, class Period>
    static constexpr key after(key now, std::chrono::duration<Rep, Period> delay) noexcept {
        using wide = std::chrono::duration<long double, typename Duration::period>;
        if (delay <= delay.zero()) return now;
        if (!(wide(delay) < wide(Duration::max()))) return key::max();
        return after(now, std::chrono::ceil<Duration>(delay));
    }
    static constexpr key in_range(key, key latest) noexcept { return latest; }
    static constexpr key as_now(key now) noexcept {
        return is_never(now) ? now - Duration(1) : now;
    }
};

/// Time points with a floating-point count: as floating point.  A negative delay counts as 0.
template <class Clock, class Duration>
requires std::floating_point<typename Duration::rep>
struct timer_key_traits<std::chrono::time_point<Clock, Duration>> {
    using key = std::chrono::time_point<Clock, Duration>;
    using count = timer_key_traits<typename Duration::rep>;
    static constexpr bool is_never(key at) noexcept {
        return count::is_never(at.time_since_epoch().count());
    }
    template <class Rep, class Period>
    static constexpr key after(key now, std::chrono::duration<Rep, Period> delay) noexcept {
        return delay < delay.zero() ? now : now + Duration(delay);
    }
    static constexpr key in_range(key, key latest) noexcept { return latest; }
    static constexpr key as_now(key now) noexcept {
        return key(Duration(count::as_now(now.time_since_epoch().count())));
    }
};

namespace detail::queue {

template <class Key>
class heap_core;

}  // namespace detail::queue

/// The part of a timer that a timer_heap tracks: derive from it, or embed one.
///
/// It cannot be copied or moved.  Destroying an armed timer cancels it.  Written by the heap only.
template <class Key = tick>
class heap_timer {
public:
    using key_type = Key;

    heap_timer() = default;
    ~heap_timer() {
        if (queue_ != nullptr) queue_->remove(*this);
    }
    heap_timer(const heap_timer&) = delete;
    heap_timer& operator=(const heap_timer&) = delete;

    /// Whether it is in a queue.
    [[nodiscard]] bool armed() const noexcept { return queue_ != nullptr; }

    /// The key it was last armed for.  A deadline in the past counts as the queue's now.
    [[nodiscard]] Key deadline() const { return deadline_; }

private:
    friend class detail::queue::heap_core<Key>;

    Key deadline_{};
    std::uint64_t order_ = 0;  // of arming: equal deadlines fire in this order
    std::size_t index_ = 0;    // its place in the heap's array
    detail::queue::heap_core<Key>* queue_ = nullptr;
};

namespace detail::queue {

// Invariants (check() verifies them)
//   H1  Entry i is not before its parent (i - 1) / 4, by (deadline, order).
//   H2  Entry i's timer has index i, that deadline, and belongs to this heap.
//   H3  A timer armed during an advance for now or before has deadline == now_ and a later order
//       than all timers armed before: it is behind them, and the advance stops before it.
template <class Key>
class heap_core {
public:
    using timer = heap_timer<Key>;
    using traits = timer_key_traits<Key>;

    explicit heap_core(const Key& start) : now_(traits::as_now(start)) {}
    ~heap_core() {
        clear();
        if (running_ != nullptr) running_->heap_gone = true;
    }
    heap_core(const heap_core&) = delete;
    heap_core& operator=(const heap_core&) = delete;

    void reserve(std::size_t count) { entries_.reserve(count); }

    void arm(timer& t, Key deadline) {
        if (!traits::is_never(deadline) && deadline < now_) deadline = now_;
        if (t.queue_ == this) {
            t.deadline_ = deadline;
            t.order_ = next_order_++;
            const std::size_t index = t.index_;
            entries_[index].deadline = deadline;
            settle(index);
            return;
        }
        entries_.push_back({deadline, &t});  // may throw: nothing has changed yet
        if (t.queue_ != nullptr) t.queue_->remove(t);
        t.queue_ = this;
        t.deadline_ = deadline;
        t.order_ = next_order_++;
        t.index_ = entries_.size() - 1;
        sift_up(t.index_);
    }

    /// Precondition: the timer is armed here.
    void remove(timer& t) noexcept {
        const std::size_t hole = t.index_;
        t.queue_ = nullptr;
        const entry moved = entries_.back();
        entries_.pop_back();
        if (hole == entries_.size()) return;
        put(hole, moved);
        settle(hole);
    }

    template <class Fire>
    std::size_t advance(const Key& to, Fire&& fire, std::size_t budget) {
        if (running_ != nullptr) return 0;
        const Key now = traits::as_now(to);
        if (now_ < now) now_ = now;
        advance_scope scope(*this);
        const std::uint64_t armed_meanwhile = next_order_;
        std::size_t fired = 0;
        while (fired < budget && !entries_.empty()) {
            timer& t = *entries_.front().owner;
            if (now_ < t.deadline_ || traits::is_never(t.deadline_)) break;
            if (t.order_ >= armed_meanwhile) break;  // H3
            remove(t);
            ++fired;
            fire(t);
            if (scope.heap_gone) break;
        }
        return fired;
    }

    [[nodiscard]] std::optional<Key> next_expiry() const {
        if (entries_.empty() || traits::is_never(entries_.front().deadline)) return std::nullopt;
        return entries_.front().deadline;
    }

    [[nodiscard]] const Key& now() const noexcept { return now_; }
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] bool owns(const timer& t) const noexcept { return t.queue_ == this; }

    void clear() noexcept {
        for (const entry& e : entries_)
            e.owner->queue_ = nullptr;
        entries_.clear();
    }

    [[nodiscard]] timer* first() const noexcept {
        return entries_.empty() ? nullptr : entries_.front().owner;
    }

    [[nodiscard]] timer* take_any() noexcept {
        if (entries_.empty()) return nullptr;
        timer* const any = entries_.back().owner;
        remove(*any);
        return any;
    }

    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const entry& e : entries_)
            visit(std::as_const(*e.owner));
    }

    [[nodiscard]] const char* check() const noexcept {
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            const entry& e = entries_[i];
            if (e.owner->queue_ != this) return "H2: an entry's timer belongs elsewhere";
            if (e.owner->index_ != i) return "H2: index";
            if (before(e, {e.owner->deadline_, e.owner})) return "H2: deadline";
            if (before({e.owner->deadline_, e.owner}, e)) return "H2: deadline";
            if (i > 0 && before(e, entries_[(i - 1) / arity])) return "H1: order";
        }
        return nullptr;
    }

private:
    static constexpr std::size_t arity = 4;

    struct entry {
        Key deadline;
        timer* owner;
    };

    // Lives on the stack of advance(), and outlives the heap if a callback destroys it.
    struct advance_scope {
        // g++ 12 warns of a dangling pointer, but the destructor resets it if the heap still
        // exists.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-pointer"
#endif
        explicit advance_scope(heap_core& of) noexcept : heap(of) {
            of.running_ = this;
        }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
        ~advance_scope() {
            if (!heap_gone) heap.running_ = nullptr;
        }
        advance_scope(const advance_scope&) = delete;
        advance_scope& operator=(const advance_scope&) = delete;

        heap_core& heap;
        bool heap_gone = false;
    };

    // never sorts last, and so does NaN, which is not ordered by <.
    static bool before(const entry& a, const entry& b) {
        if (a.deadline < b.deadline) return true;
        if (b.deadline < a.deadline) return false;
        const bool a_never = traits::is_never(a.deadline);
        const bool b_never = traits::is_never(b.deadline);
        if (a_never != b_never) return b_never;
        return a.owner->order_ < b.owner->order_;
    }

    void put(std::size_t index, const entry& e) {
        entries_[index] = e;
        e.owner->index_ = index;
    }

    void settle(std::size_t index) {
        if (index > 0 && before(entries_[index], entries_[(index - 1) / arity])) {
            sift_up(index);
        } else {
            sift_down(index);
        }
    }

    void sift_up(std::size_t index) {
        const entry moving = entries_[index];
        while (index > 0) {
            const std::size_t parent = (index - 1) / arity;
            if (!before(moving, entries_[parent])) break;
            put(index, entries_[parent]);
            index = parent;
        }
        put(index, moving);
    }

    void sift_down(std::size_t index) {
        const entry moving = entries_[index];
        const std::size_t count = entries_.size();
        for (;;) {
            const std::size_t first = index * arity + 1;
            if (first >= count) break;
            std::size_t least = first;
            const std::size_t end = first + arity < count ? first + arity : count;
            for (std::size_t child = first + 1; child < end; ++child) {
                if (before(entries_[child], entries_[least])) least = child;
            }
            if (!before(entries_[least], moving)) break;
            put(index, entries_[least]);
            index = least;
        }
        put(index, moving);
    }

    std::vector<entry> entries_;
    Key now_;
    std::uint64_t next_order_ = 0;
    advance_scope* running_ = nullptr;
};

}  // namespace detail::queue

/// An ordered set of timers that the user owns, with the guarantees of timing_wheel.
///
/// Thread safety: none; one thread at a time.
/// Exceptions: arming a timer that is not armed here may throw std::bad_alloc, unless reserve()
/// made room; then nothing has changed.
template <class T = heap_timer<>>
class timer_heap {
    static_assert(std::derived_from<T, heap_timer<typename T::key_type>>);

public:
    using timer_type = T;
    using key_type = typename T::key_type;

    /// The heap's time is `start` until the first advance().
    explicit timer_heap(const key_type& start = key_type{}) : core_(start) {}

    /// Makes room for `count` timers, so that arming them does not allocate.
    void reserve(std::size_t count) { core_.reserve(count); }

    /// Arms the timer for `deadline`, also if it is armed already, here or in another heap.
    void arm_at(T& timer, const key_type& deadline) { core_.arm(timer, deadline); }

    /// arm_at(now() + delay).  The sum saturates where the key can.
    template <class Delay>
    void arm_after(T& timer, const Delay& delay) {
        core_.arm(timer, traits::after(core_.now(), delay));
    }

    /// Arms the timer in [earliest, latest]: ticks at the roundest, other keys at `latest`.  A
    /// timer already armed here for a key in that range is not changed.
    void arm_in_range(T& timer, key_type earliest, const key_type& latest) {
        if (core_.owns(timer) && !(timer.deadline() < earliest) && !(latest < timer.deadline())) {
            return;
        }
        if (earliest < core_.now()) earliest = core_.now();
        core_.arm(timer, latest < earliest ? earliest : traits::in_range(earliest, latest));
    }

    /// Disarms the timer.  Returns false if it was not armed here: harmless.
    bool cancel(T& timer) noexcept {
        if (!core_.owns(timer)) return false;
        core_.remove(timer);
        return true;
    }

    /// Moves time to `now` and calls fire(T&) for each timer that is due, at most `budget` of them.
    /// As timing_wheel::advance.
    template <std::invocable<T&> Fire>
    std::size_t advance(const key_type& now, Fire&& fire, std::size_t budget = no_budget) {
        return core_.advance(
            now, [&fire](heap_timer<key_type>& timer) { fire(static_cast<T&>(timer)); }, budget);
    }

    /// The next deadline: in a heap the bound is always exact.  None when nothing will ever fire.
    [[nodiscard]] std::optional<key_type> next_bound() const { return core_.next_expiry(); }
    [[nodiscard]] std::optional<key_type> next_expiry() const { return core_.next_expiry(); }

    /// The latest time passed to advance().
    [[nodiscard]] key_type now() const { return core_.now(); }

    /// How many timers are armed here, those that are never due included.
    [[nodiscard]] std::size_t size() const noexcept { return core_.size(); }
    [[nodiscard]] bool empty() const noexcept { return core_.size() == 0; }

    /// Disarms all.
    void clear() noexcept { core_.clear(); }

    /// The timer that comes first, by deadline and then in the order of arming, or nullptr if none
    /// is armed.  Those that are never due come last.  For a clock that may go back, which
    /// advance() cannot follow: take out first() while it is due.
    [[nodiscard]] T* first() const noexcept { return static_cast<T*>(core_.first()); }

    /// Disarms some armed timer and returns it, or nullptr if there is none.  O(1).  Call it
    /// repeatedly to empty a queue whose timers own something.
    [[nodiscard]] T* take_any() noexcept { return static_cast<T*>(core_.take_any()); }

    /// Calls visit(const T&) for each armed timer, in no promised order.
    template <std::invocable<const T&> Visit>
    void for_each(Visit&& visit) const {
        core_.for_each(
            [&visit](const heap_timer<key_type>& timer) { visit(static_cast<const T&>(timer)); });
    }

    /// Verifies every invariant: nullptr, or the name of the one that is broken.  For tests: O(n).
    [[nodiscard]] const char* check() const noexcept { return core_.check(); }

private:
    using traits = timer_key_traits<key_type>;

    detail::queue::heap_core<key_type> core_;
};

}  // namespace verge
