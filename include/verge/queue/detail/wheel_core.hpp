// verge/queue/detail/wheel_core.hpp -- the timing wheel itself, on plain nodes.
//
// How it files a timer.  A deadline is read as 11 digits of 6 bits.  The timer's level is the
// highest digit in which its deadline differs from elapsed_, the wheel's position; its slot is
// that digit.  So on level 0 a slot is one tick, on level 1 it spans 64 ticks, and so on:
//
//     level      0    1      2        3     ...      9        10
//     slots     64   64     64       64             64        16
//     a slot     1   64   4096   262144           64^9     64^10   ticks
//
// Finding the next timer is two bit scans: the lowest level in use, its first slot in use.  When
// that slot's least deadline m is due, elapsed_ moves to m in one step, timers due at m go to the
// due_ list and the others of the slot are filed again, on lower levels.  Time spans in which
// nothing is due are never walked.
//
// Invariants (check() verifies them)
//   W1  A timer in a slot has deadline > elapsed_, and stands at the level and slot that its
//       deadline and the present elapsed_ give.  elapsed_ only moves up to a tick before the first
//       slot in use, or into that slot while it is being emptied; neither changes any other
//       timer's digits, so W1 is kept without touching them.
//   W2  Equal deadlines stand in one list (by W1), in the order in which they were armed.
//   W3  Two timers of a slot's list, which may be the same one, say in their home_ what is known of
//       it.  The last, and no other, has is_last, and perhaps in_order: the list is in order of
//       deadline.  The first, and no other, may have least_first: it has the least deadline.
//       in_order implies that.  On level 0 both hold by nature.
//   W4  now_ >= elapsed_.  Timers with deadline <= now_ stand in due_, fresh_, or (only while
//       behind_, that is after an advance that ran out of budget, or inside one) in slots.
//   W5  due_ holds what this advance fires next.  fresh_ holds what was armed at or before now_:
//       it fires on the next advance, so that a timer that re-arms itself with 0 cannot loop.
//   W6  The level `ahead` (below) holds timers whose place by W1 is ahead_, in the slots that they
//       will have one level below that.  They come before those with equal deadlines in the list
//       at ahead_ itself.  The last of such a list has is_ahead.
//
// Emptying a slot takes time in proportion to its timers, and a hundred thousand in one slot are
// ten milliseconds in which nothing fires.  So when slots of a level have proved long, the next one
// is taken apart before its time, a few timers with each advance, into the slots of a level of its
// own.  When its time comes these only have to be handed over.
//
// A list in a slot is a ring without a sentinel: the slot holds its last, whose next_ is the first.
// That halves the size of an empty wheel.  due_, fresh_ and parked_ have sentinels.
//
// What is known of a list stands in its first and last timers, so that a cancel learns from the
// timer itself whether there is more to do than to unlink it.  One in the middle reads neither
// neighbour; only one at the end finds out level and slot.

#pragma once

#include <verge/base/detail/assert.hpp>
#include <verge/queue/tick.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verge {

namespace detail {

class wheel_core;
struct wheel_access;  // the tests'

struct wheel_link {
    wheel_link* next_;
    wheel_link* prev_;
    tick deadline_ = 0;
    std::uintptr_t home_ = 0;  // the wheel's address and, in its low bits, W3, W6; 0: not armed
};

}  // namespace detail

/// The part of a timer that a timing_wheel links: derive from it, or embed one.  32 bytes.
///
/// It cannot be copied or moved while it may be linked.  Destroying an armed timer cancels it.
/// Written by the wheel only.
class wheel_timer : private detail::wheel_link {
public:
    wheel_timer() noexcept : wheel_link{nullptr, nullptr} {}
    ~wheel_timer() { disarm(); }
    wheel_timer(const wheel_timer&) = delete;
    wheel_timer& operator=(const wheel_timer&) = delete;

    /// Whether it stands in a queue.
    [[nodiscard]] bool armed() const noexcept { return home_ != 0; }

    /// The tick it was last armed for.  A deadline in the past counts as the queue's now.
    [[nodiscard]] tick deadline() const noexcept { return deadline_; }

private:
    friend class detail::wheel_core;
    inline void disarm() noexcept;
};

namespace detail {

class alignas(16) wheel_core {  // so that its address leaves four bits for tags
public:
    explicit wheel_core(tick start) noexcept;
    ~wheel_core();
    wheel_core(const wheel_core&) = delete;
    wheel_core& operator=(const wheel_core&) = delete;

    // Inlined, so that the compiler sees that what was just cancelled is not armed.
    [[gnu::always_inline]] void arm(wheel_timer& timer, tick deadline) noexcept {
        timer.disarm();
        ++size_;
        if (deadline <= now_) [[unlikely]] {
            arm_due(timer);
        } else if (deadline == never_tick) [[unlikely]] {
            timer.deadline_ = deadline;
            append(parked_, timer);
        } else {
            timer.deadline_ = deadline;
            file(timer);
        }
    }

    void arm_next(wheel_timer& timer, tick deadline) noexcept {
        if (running_ == nullptr || deadline > now_ || deadline <= running_->firing) {
            arm(timer, deadline);
            return;
        }
        timer.disarm();
        ++size_;
        timer.deadline_ = deadline;
        file(timer);
    }

    /// Precondition: the timer is armed here.
    void remove(wheel_timer& timer) noexcept {
        wheel_link* const next = timer.next_;
        wheel_link* const prev = timer.prev_;
        next->prev_ = prev;
        prev->next_ = next;
        if ((timer.home_ & is_last) != 0) [[unlikely]] {
            remove_last(timer);
        } else if ((timer.home_ & least_first) != 0) {
            // The first goes, and was the least.  The next is the least now if that can be seen.
            if ((prev->home_ & in_order) != 0 || next->deadline_ == timer.deadline_)
                next->home_ |= least_first;
        }
        timer.home_ = 0;
        --size_;
    }

    template <class Fire>
    std::size_t advance(tick now, Fire&& fire, std::size_t budget) {
        if (running_ != nullptr) return 0;
        if (now == never_tick) --now;  // what never fires is not due then either
        if (now > now_) now_ = now;
        advance_scope scope(*this);
        splice(due_, fresh_);
        std::size_t fired = 0;
        while (fired < budget) {
            if (due_.next_ == &due_ && !collect_due()) {
                scope.caught_up = true;
                break;
            }
            wheel_timer& timer = as_timer(due_.next_);
            due_.next_ = timer.next_;
            timer.next_->prev_ = &due_;
            timer.home_ = 0;
            --size_;
            ++fired;
            scope.firing = timer.deadline_;
            fire(timer);
            if (scope.wheel_gone) break;
        }
        return fired;
    }

    [[nodiscard]] std::optional<tick> next_bound() const noexcept {
        if (due_.next_ != &due_) return due_.next_->deadline_;
        tick bound = fresh_.next_ != &fresh_ ? fresh_.next_->deadline_ : never_tick;
        if (levels_ != 0) {
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

    [[nodiscard]] bool owns(const wheel_timer& timer) const noexcept {
        return (timer.home_ & ~tags) == address();
    }

    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const wheel_link* list : {&due_, &fresh_, &parked_}) {
            for (const wheel_link* at = list->next_; at != list; at = at->next_)
                visit(as_timer(at));
        }
        for (const wheel_link* last : last_) {
            if (last == nullptr) continue;
            const wheel_link* at = last;
            do {
                at = at->next_;
                visit(as_timer(at));
            } while (at != last);
        }
    }

private:
    friend class verge::wheel_timer;
    friend struct wheel_access;

    static constexpr std::uintptr_t is_last = 1;
    static constexpr std::uintptr_t in_order = 2;
    static constexpr std::uintptr_t least_first = 4;
    static constexpr std::uintptr_t is_ahead = 8;
    static constexpr std::uintptr_t tags = is_last | in_order | least_first | is_ahead;

    static constexpr unsigned digit_bits = 6;
    static constexpr unsigned slots = 1U << digit_bits;
    static constexpr unsigned levels = 11;
    static constexpr unsigned ahead = levels;  // the level of what is taken apart early
    static constexpr std::size_t slot_count = std::size_t{levels + 1} * slots;

    struct place {
        unsigned level;
        unsigned slot;
        [[nodiscard]] std::size_t index() const noexcept {
            return std::size_t{level} * slots + slot;
        }
        [[nodiscard]] std::uint64_t bit() const noexcept { return std::uint64_t{1} << slot; }
    };

    // Lives on the stack of advance(), and outlives the wheel if a callback destroys that.
    struct advance_scope {
        explicit advance_scope(wheel_core& of) noexcept : wheel(of) { of.running_ = this; }
        ~advance_scope() {
            if (!wheel_gone) wheel.settle(caught_up);
        }
        advance_scope(const advance_scope&) = delete;
        advance_scope& operator=(const advance_scope&) = delete;

        wheel_core& wheel;
        tick firing = 0;  // the deadline of the timer that is being called: not before elapsed_
        bool wheel_gone = false;
        bool caught_up = false;
    };

    static wheel_timer& as_timer(wheel_link* link) noexcept {
        return static_cast<wheel_timer&>(*link);
    }
    static const wheel_timer& as_timer(const wheel_link* link) noexcept {
        return static_cast<const wheel_timer&>(*link);
    }

    [[nodiscard]] std::uintptr_t address() const noexcept {
        return reinterpret_cast<std::uintptr_t>(this);
    }

    [[nodiscard]] place place_of(tick deadline) const noexcept {
        const auto top = static_cast<unsigned>(std::bit_width((deadline ^ elapsed_) | 1)) - 1;
        const unsigned level = top / digit_bits;
        return {level, static_cast<unsigned>(deadline >> (level * digit_bits)) & (slots - 1)};
    }

    // The slot on the level `ahead` of a timer whose place is ahead_.
    [[nodiscard]] place place_ahead_of(tick deadline) const noexcept {
        const unsigned shift = (ahead_.level - 1) * digit_bits;
        return {ahead, static_cast<unsigned>(deadline >> shift) & (slots - 1)};
    }

    [[nodiscard]] bool ahead_in_use() const noexcept { return (levels_ >> ahead) != 0; }

    // The first slot in use by time; one on the level `ahead` if there are no others.
    // Precondition: levels_ != 0.
    [[nodiscard]] place first_place() const noexcept {
        const auto level = static_cast<unsigned>(std::countr_zero(levels_));
        return {level, static_cast<unsigned>(std::countr_zero(occupied_[level]))};
    }

    // The first tick that the slot stands for: elapsed_ with this digit, and zeros below.
    [[nodiscard]] tick start_of(place at) const noexcept {
        const unsigned shift = at.level * digit_bits;
        const tick above = elapsed_ >> shift >> digit_bits << digit_bits;
        return (above | at.slot) << shift;
    }

    // A tick not after the first deadline in a slot.
    [[nodiscard]] tick bound_of(place at) const noexcept {
        const wheel_link* const first = last_[at.index()]->next_;
        return (first->home_ & least_first) != 0 ? first->deadline_ : start_of(at);
    }

    void mark_used(place at) noexcept {
        levels_ |= 1U << at.level;
        occupied_[at.level] |= at.bit();
    }

    void mark_empty(place at) noexcept {
        occupied_[at.level] &= ~at.bit();
        if (occupied_[at.level] == 0) levels_ &= ~(1U << at.level);
    }

    // A timer that was the last of its list, and is unlinked.
    void remove_last(wheel_timer& timer) noexcept {
        place at = place_of(timer.deadline_);
        if ((timer.home_ & is_ahead) != 0) [[unlikely]]
            at = place_ahead_of(timer.deadline_);
        if (timer.prev_ == &timer) {
            last_[at.index()] = nullptr;
            mark_empty(at);
        } else {
            last_[at.index()] = timer.prev_;
            timer.prev_->home_ |= timer.home_ & tags;
        }
    }

    void append(wheel_link& list, wheel_timer& timer) noexcept {
        timer.home_ = address();
        timer.next_ = &list;
        timer.prev_ = list.prev_;
        list.prev_->next_ = &timer;
        list.prev_ = &timer;
    }

    static void splice(wheel_link& to, wheel_link& from) noexcept {
        if (from.next_ == &from) return;
        to.prev_->next_ = from.next_;
        from.next_->prev_ = to.prev_;
        to.prev_ = from.prev_;
        from.prev_->next_ = &to;
        from.next_ = from.prev_ = &from;
    }

    // Puts a timer with deadline > elapsed_ into its slot, keeping W2 and W3.
    void file(wheel_timer& timer) noexcept { file(timer, place_of(timer.deadline_), 0); }

    void file(wheel_timer& timer, place at, std::uintptr_t tag) noexcept {
        wheel_link*& last = last_[at.index()];
        wheel_link* const old_last = last;
        if (old_last == nullptr) {
            timer.home_ = address() | is_last | in_order | least_first | tag;
            timer.next_ = timer.prev_ = &timer;
            last = &timer;
            mark_used(at);
            return;
        }
        wheel_link* const first = old_last->next_;
        timer.next_ = first;
        timer.prev_ = old_last;
        old_last->next_ = &timer;
        first->prev_ = &timer;
        if ((first->home_ & least_first) != 0 && timer.deadline_ < first->deadline_) [[unlikely]] {
            // Strictly less than all: it stays in front, in order, and W2 cannot be hurt.
            first->home_ &= ~least_first;
            timer.home_ = address() | least_first;
            return;
        }
        last = &timer;
        const std::uintptr_t known = old_last->home_;
        old_last->home_ = known & ~(is_last | in_order | is_ahead);
        std::uintptr_t now_known = known & ~least_first;
        // Whether it is in order with its neighbour is a matter of chance: no branch on that but
        // where all were in order so far.
        if ((known & in_order) != 0) {
            if (timer.deadline_ < old_last->deadline_) [[unlikely]]
                now_known &= ~in_order;
        }
        timer.home_ = now_known;
    }

    void arm_due(wheel_timer& timer) noexcept;
    bool collect_due() noexcept;
    void empty_slot(place at, tick to) noexcept;
    std::size_t file_again(wheel_link* last) noexcept;
    void settle(bool caught_up) noexcept;
    [[nodiscard]] static tick least_of(const wheel_link* last) noexcept;

    void work_ahead() noexcept;
    void enter_ahead() noexcept;
    [[nodiscard]] bool ahead_is_first() const noexcept;
    [[nodiscard]] tick bound_with_ahead() const noexcept;
    [[nodiscard]] const char* check_slot(place at, std::size_t& seen) const noexcept;

    tick elapsed_;
    tick now_;
    std::size_t size_ = 0;
    advance_scope* running_ = nullptr;
    bool behind_ = false;
    std::uint32_t levels_ = 0;  // a bit for each level in use
    std::array<std::uint64_t, levels + 1> occupied_{};
    wheel_link due_{&due_, &due_};
    wheel_link fresh_{&fresh_, &fresh_};
    wheel_link parked_{&parked_, &parked_};  // armed for never
    std::array<wheel_link*, slot_count> last_{};
    std::size_t long_slot_ = 16384;  // more timers take a millisecond or two
    unsigned long_level_ = levels;   // the lowest on which a slot was long
    place ahead_{};                  // the slot that is being taken apart
    std::size_t moved_ahead_ = 0;
};

static_assert(sizeof(wheel_core) <= 8192, "an empty wheel is small");

}  // namespace detail

static_assert(sizeof(wheel_timer) == 32);

inline void wheel_timer::disarm() noexcept {
    if (home_ == 0) return;
    reinterpret_cast<detail::wheel_core*>(home_ & ~detail::wheel_core::tags)->remove(*this);
}

}  // namespace verge
