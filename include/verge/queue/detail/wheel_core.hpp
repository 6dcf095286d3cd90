// verge/queue/detail/wheel_core.hpp -- the timing wheel itself, on plain nodes.
//
// Placement.  A deadline is read as 15 digits, the lowest three of 6 bits, the others of 4.  A
// timer's level is the highest digit in which its deadline differs from elapsed_, the wheel's
// position; its slot is that digit.  So on level 0 a slot is one tick, on level 1 it spans 64
// ticks, and so on:
//
//     level      0    1      2        3           4     ...     14
//     slots     64   64     64       16          16              4
//     a slot     1   64   4096   262144   4.2 million         2^62   ticks
//
// Slots are numbered from level 0 upwards, and so are in order of time.  Finding the next slot is
// two bit scans.  When the least deadline m of the first slot in use is due, elapsed_ moves to m in
// one step, timers due at m go to the due_ list, and the others of the slot are cascaded to lower
// levels.  Ticks at which nothing is due are never visited.
//
// Invariants (check() verifies them)
//   W1  A timer in a slot has deadline > elapsed_, and is at the level and slot that its deadline
//       and the current elapsed_ give.  elapsed_ only moves to a tick before the first slot in use,
//       or into that slot while it is being emptied; neither changes the place of any other timer,
//       so W1 is kept without touching them.
//   W2  Equal deadlines stand in one list (by W1), in the order in which they were armed.
//   W3  known_ of a slot in use is correct: `nothing`; or `least_first`, the first of its list has
//       the least deadline; or `in_order`, the list is sorted by deadline, which implies the
//       former.  On level 0 both always hold.
//   W4  now_ >= elapsed_.  Timers with deadline <= now_ are in due_, in fresh_, or in slots; the
//       latter only while behind_: inside an advance, or after one that ended early because it ran
//       out of budget or a callback threw.
//   W5  due_ holds what this advance fires next.  fresh_ holds timers armed for now_ or before:
//       they fire on the next advance, so that a timer that re-arms itself with 0 cannot loop.
//   W6  The level `ahead` (below) holds timers whose place by W1 is ahead_, in the slots that they
//       will have one level below that.  They come before timers with equal deadlines in the list
//       at ahead_ itself.
//
// Pre-cascading.  Emptying a slot takes time proportional to its timers, and 100,000 timers in one
// slot stall the wheel for 10 ms.  So when slots of a level have proved long, the next one is
// pre-cascaded, a few timers per advance, into the slots of the separate level `ahead`.  When its
// time comes, these lists only have to be spliced into the level below.
//
// All lists are circular, through a link in the wheel itself.  So a cancel writes the links of both
// neighbours without reading them, and need not know the timer's slot.  Only if the previous link
// is a slot's own link, known_ or occupied_ may have to change, and then that link is the slot.

#pragma once

#include <verge/queue/tick.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verge {

namespace detail::queue {

class wheel_core;
struct wheel_access;  // for tests

struct wheel_link {
    wheel_link* next_;
    wheel_link* prev_;
};

}  // namespace detail::queue

/// The part of a timer that a timing_wheel links: derive from it, or embed one.  32 bytes.
///
/// It cannot be copied or moved while it may be linked.  Destroying an armed timer cancels it.
/// Written by the wheel only.
class wheel_timer : private detail::queue::wheel_link {
public:
    wheel_timer() noexcept : wheel_link{nullptr, nullptr} {}
    ~wheel_timer() { disarm(); }
    wheel_timer(const wheel_timer&) = delete;
    wheel_timer& operator=(const wheel_timer&) = delete;

    /// Whether it is in a queue.
    [[nodiscard]] bool armed() const noexcept { return home_ != nullptr; }

    /// The tick it was last armed for.  A deadline in the past counts as the queue's now.
    [[nodiscard]] tick deadline() const noexcept { return deadline_; }

private:
    friend class detail::queue::wheel_core;
    inline void disarm() noexcept;

    tick deadline_ = 0;
    detail::queue::wheel_core* home_ = nullptr;  // where it is armed
};

namespace detail::queue {

struct wheel_level {
    std::uint16_t first;       // the number of its first slot
    std::uint8_t shift;        // the number of bits of a deadline below its digit
    std::uint8_t digit_limit;  // its largest digit, which is also the digit's mask
};

struct wheel_shape {
    static constexpr unsigned levels = 15;
    static constexpr unsigned slots = 448;         // 12 of them, before `ahead`, are not used
    static constexpr unsigned ahead = slots - 64;  // the first slot of the level `ahead`

    static constexpr wheel_level level(unsigned n) noexcept {
        if (n < 3) {
            return {static_cast<std::uint16_t>(64 * n), static_cast<std::uint8_t>(6 * n), 63};
        }
        n -= 3;
        return {static_cast<std::uint16_t>(192 + 16 * n), static_cast<std::uint8_t>(18 + 4 * n),
                15};
    }
    static constexpr unsigned level_of(std::size_t slot) noexcept {
        return static_cast<unsigned>(slot < 192 ? slot / 64 : 3 + (slot - 192) / 16);
    }
    static constexpr unsigned level_of_bit(unsigned bit) noexcept {
        return bit < 18 ? bit / 6 : 3 + (bit - 18) / 4;
    }
};

// The level of a deadline by the highest bit in which it differs from the wheel's position.  A
// table, because the slot is on the critical path of arm(), and computing it takes longer.
inline constexpr auto wheel_level_by_bit = [] {
    std::array<wheel_level, 64> table{};
    for (unsigned bit = 0; bit < table.size(); ++bit)
        table[bit] = wheel_shape::level(wheel_shape::level_of_bit(bit));
    return table;
}();

class wheel_core {
public:
    explicit wheel_core(tick start) noexcept;
    ~wheel_core();
    wheel_core(const wheel_core&) = delete;
    wheel_core& operator=(const wheel_core&) = delete;

    // Inlined, so that the compiler sees that a timer that was just cancelled is not armed.
    [[gnu::always_inline]] void arm(wheel_timer& timer, tick deadline) noexcept {
        adopt(timer);
        if (deadline <= now_) [[unlikely]] {
            arm_due(timer);
            return;
        }
        timer.deadline_ = deadline;
        if (deadline == never_tick) [[unlikely]] {
            append(parked_, timer);
        } else {
            file(timer, place_of(deadline));
        }
    }

    void arm_next(wheel_timer& timer, tick deadline) noexcept {
        if (running_ == nullptr || deadline > now_ || deadline <= running_->firing) {
            arm(timer, deadline);
            return;
        }
        adopt(timer);
        timer.deadline_ = deadline;
        file(timer, place_of(deadline));
    }

    /// Precondition: the timer is armed here.
    void remove(wheel_timer& timer) noexcept {
        unlink(timer);
        timer.home_ = nullptr;
        --size_;
    }

    template <class Fire>
    std::size_t advance(tick now, Fire&& fire, std::size_t budget) {
        if (running_ != nullptr) return 0;
        if (now == never_tick) --now;  // timers armed for never_tick are not due then either
        if (now > now_) now_ = now;
        advance_scope scope(*this);
        splice(due_, fresh_);
        std::size_t fired = 0;
        while (fired < budget) {
            if (is_empty(due_) && !collect_due()) {
                scope.caught_up = true;
                break;
            }
            wheel_timer& timer = first_of(due_);
            remove(timer);
            ++fired;
            scope.firing = timer.deadline_;
            fire(timer);
            if (scope.wheel_gone) break;
        }
        return fired;
    }

    [[nodiscard]] std::optional<tick> next_bound() const noexcept {
        if (!is_empty(due_)) return first_of(due_).deadline_;
        tick bound = is_empty(fresh_) ? never_tick : first_of(fresh_).deadline_;
        if (words_ != 0) {
            const tick least = ahead_in_use() ? bound_with_ahead() : bound_of(first_place());
            if (least < bound) bound = least;
        }
        if (bound == never_tick) return std::nullopt;
        return bound;
    }

    [[nodiscard]] std::optional<tick> next_expiry() const noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] tick now() const noexcept { return now_; }
    void clear() noexcept;
    [[nodiscard]] wheel_timer* take_any() noexcept;
    [[nodiscard]] const char* check() const noexcept;

    [[nodiscard]] bool owns(const wheel_timer& timer) const noexcept { return timer.home_ == this; }

    template <class Visit>
    void for_each(Visit&& visit) const {
        for_each_of(due_, visit);
        for_each_of(fresh_, visit);
        for_each_of(parked_, visit);
        for (const wheel_link& list : slots_)
            for_each_of(list, visit);
    }

private:
    friend class verge::wheel_timer;
    friend struct wheel_access;

    using shape = wheel_shape;
    using place = std::size_t;  // the number of a slot

    enum class knowledge : std::uint8_t { nothing, least_first, in_order };  // W3

    // Lives on the stack of advance(), and outlives the wheel if a callback destroys it.
    struct advance_scope {
        explicit advance_scope(wheel_core& of) noexcept : wheel(of) { of.running_ = this; }
        ~advance_scope() {
            if (!wheel_gone) wheel.settle(caught_up);
        }
        advance_scope(const advance_scope&) = delete;
        advance_scope& operator=(const advance_scope&) = delete;

        wheel_core& wheel;
        tick firing = 0;  // the deadline of the timer that is firing: not before elapsed_
        bool wheel_gone = false;
        bool caught_up = false;
    };

    // Lists.

    static wheel_timer& as_timer(wheel_link* link) noexcept {
        return static_cast<wheel_timer&>(*link);
    }
    static const wheel_timer& as_timer(const wheel_link* link) noexcept {
        return static_cast<const wheel_timer&>(*link);
    }
    static bool is_empty(const wheel_link& list) noexcept { return list.next_ == &list; }
    static wheel_timer& first_of(wheel_link& list) noexcept { return as_timer(list.next_); }
    static const wheel_timer& first_of(const wheel_link& list) noexcept {
        return as_timer(list.next_);
    }
    static const wheel_timer& last_of(const wheel_link& list) noexcept {
        return as_timer(list.prev_);
    }

    template <class Visit>
    static void for_each_of(const wheel_link& list, Visit& visit) {
        for (const wheel_link* at = list.next_; at != &list; at = at->next_)
            visit(as_timer(at));
    }

    static void insert(wheel_link* before, wheel_timer& timer, wheel_link* after) noexcept {
        timer.next_ = after;
        timer.prev_ = before;
        before->next_ = &timer;
        after->prev_ = &timer;
    }

    static void append(wheel_link& list, wheel_timer& timer) noexcept {
        insert(list.prev_, timer, &list);
    }

    static void splice(wheel_link& to, wheel_link& from) noexcept {
        if (is_empty(from)) return;
        to.prev_->next_ = from.next_;
        from.next_->prev_ = to.prev_;
        to.prev_ = from.prev_;
        from.prev_->next_ = &to;
        from.next_ = from.prev_ = &from;
    }

    // Places.

    // Precondition: deadline > elapsed_.
    [[nodiscard]] place place_of(tick deadline) const noexcept {
        const auto bit = 63U ^ static_cast<unsigned>(__builtin_clzll(deadline ^ elapsed_));
        return place_on(wheel_level_by_bit[bit], deadline);
    }

    static place place_on(wheel_level level, tick deadline) noexcept {
        return level.first + ((deadline >> level.shift) & level.digit_limit);
    }

    // The slot on the level `ahead` of a timer whose place is ahead_.
    [[nodiscard]] place place_ahead_of(tick deadline) const noexcept {
        wheel_level level = below_ahead();
        level.first = shape::ahead;
        return place_on(level, deadline);
    }

    // The level below that of the slot that is being pre-cascaded.
    [[nodiscard]] wheel_level below_ahead() const noexcept {
        return shape::level(shape::level_of(ahead_) - 1);
    }

    [[nodiscard]] bool ahead_in_use() const noexcept { return occupied_[shape::ahead / 64] != 0; }

    // The first slot in use by time; one on the level `ahead` if there are no others.
    // Precondition: words_ != 0.
    [[nodiscard]] place first_place() const noexcept {
        const auto word = static_cast<unsigned>(std::countr_zero(words_));
        return word * 64 + static_cast<unsigned>(std::countr_zero(occupied_[word]));
    }

    // The first tick of the slot: elapsed_ with this digit, and zeros below.
    // Precondition: the slot is not on the level `ahead`.
    [[nodiscard]] tick start_of(place at) const noexcept {
        const wheel_level level = shape::level(shape::level_of(at));
        const tick above = (elapsed_ >> level.shift) & ~tick{level.digit_limit};
        return (above | (at - level.first)) << level.shift;
    }

    // A tick not after the first deadline in a slot.  Precondition: as for start_of(), and that it
    // is in use.
    [[nodiscard]] tick bound_of(place at) const noexcept {
        return known_[at] != knowledge::nothing ? first_of(slots_[at]).deadline_ : start_of(at);
    }

    void mark_used(place at) noexcept {
        words_ |= 1U << (at / 64);
        occupied_[at / 64] |= std::uint64_t{1} << (at % 64);
    }

    void mark_empty(place at) noexcept {
        occupied_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
        if (occupied_[at / 64] == 0) words_ &= ~(1U << (at / 64));
    }

    // Timers.

    void adopt(wheel_timer& timer) noexcept {
        timer.disarm();
        timer.home_ = this;
        ++size_;
    }

    // Takes a timer out of its list, keeping W3.
    void unlink(wheel_timer& timer) noexcept {
        wheel_link* const next = timer.next_;
        wheel_link* const prev = timer.prev_;
        next->prev_ = prev;
        prev->next_ = next;
        // The slot in whose list it was the first; else an index out of range.
        const place at = (reinterpret_cast<std::uintptr_t>(prev) -
                          reinterpret_cast<std::uintptr_t>(slots_.data())) /
                         sizeof(wheel_link);
        if (at >= slots_.size()) return;
        if (next == prev) {
            mark_empty(at);
        } else if (known_[at] != knowledge::in_order &&
                   as_timer(next).deadline_ != timer.deadline_) {
            known_[at] = knowledge::nothing;
        }
    }

    // Puts a timer with deadline > elapsed_ into a slot, keeping W2 and W3.
    void file(wheel_timer& timer, place at) noexcept {
        wheel_link& list = slots_[at];
        if (is_empty(list)) [[unlikely]] {
            mark_used(at);
            known_[at] = knowledge::in_order;
        } else if (known_[at] != knowledge::nothing) {
            if (timer.deadline_ < first_of(list).deadline_) [[unlikely]] {
                // Strictly less than all: at the front it keeps the order, and W2.
                insert(&list, timer, list.next_);
                return;
            }
            // This comparison is unpredictable, so branch on it only if the list is still sorted.
            if (known_[at] == knowledge::in_order && timer.deadline_ < last_of(list).deadline_) {
                known_[at] = knowledge::least_first;
            }
        }
        append(list, timer);
    }

    void arm_due(wheel_timer& timer) noexcept;
    bool collect_due() noexcept;
    void empty_slot(place at, tick to) noexcept;
    std::size_t file_again(wheel_link& list) noexcept;
    void settle(bool caught_up) noexcept;
    [[nodiscard]] tick least_of(place at) const noexcept;

    void work_ahead() noexcept;
    void enter_ahead() noexcept;
    [[nodiscard]] place first_place_from(place at) const noexcept;
    void give_back_ahead() noexcept;
    [[nodiscard]] bool is_next(place at) const noexcept;
    [[nodiscard]] bool ahead_is_first() const noexcept;
    [[nodiscard]] tick bound_with_ahead() const noexcept;
    [[nodiscard]] const char* check_slot(place at, std::size_t& seen) const noexcept;

    tick elapsed_;
    tick now_;
    std::size_t size_ = 0;
    advance_scope* running_ = nullptr;
    bool behind_ = false;
    std::uint32_t words_ = 0;  // a bit for each word of occupied_ that is not 0
    std::array<std::uint64_t, shape::slots / 64> occupied_{};  // a bit for each slot in use
    wheel_link due_{&due_, &due_};
    wheel_link fresh_{&fresh_, &fresh_};
    wheel_link parked_{&parked_, &parked_};  // armed for never
    std::array<wheel_link, shape::slots> slots_;
    std::array<knowledge, shape::slots> known_{};
    std::size_t long_slot_ = 16384;        // emptying a longer slot takes over 1 to 2 ms
    unsigned long_level_ = shape::levels;  // the lowest level on which a slot was long
    place ahead_ = 0;                      // the slot that is being pre-cascaded
    std::size_t moved_ahead_ = 0;
};

static_assert(sizeof(wheel_core) <= 8192, "an empty wheel is small");

}  // namespace detail::queue

static_assert(sizeof(wheel_timer) == 32);

inline void wheel_timer::disarm() noexcept {
    if (home_ != nullptr) home_->remove(*this);
}

}  // namespace verge
