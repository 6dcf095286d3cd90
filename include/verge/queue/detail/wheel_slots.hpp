// verge/queue/detail/wheel_slots.hpp -- the slots of a timing wheel: where a timer is filed, and
// what is known about the order of each slot's list.
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
// two bit scans.  The last 64 slots, the level `staging`, are for pre-cascading: see
// wheel_precascade.hpp.
//
// Invariants (wheel_core::check() verifies them)
//   W1  A timer in a slot has deadline > elapsed_, and is at the level and slot that its deadline
//       and the current elapsed_ give.  elapsed_ only moves to a tick before the first slot in use,
//       or into that slot while it is being emptied; neither changes the place of any other timer,
//       so W1 is kept without touching them.
//   W2  Equal deadlines stand in one list (by W1), in the order in which they were armed.
//   W3  known_ of a slot in use is correct: `nothing`; or `least_first`, the first of its list has
//       the least deadline; or `in_order`, the list is sorted by deadline, which implies the
//       former.  On level 0 both always hold.
//
// All lists are circular, through a link in the wheel itself.  So a cancel writes the links of both
// neighbours without reading them, and need not know the timer's slot.  Only if the previous link
// is a slot's own link, known_ or occupied_ may have to change, and then that link is the slot.

#pragma once

#include <verge/queue/tick.hpp>
#include <verge/queue/wheel_timer.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace verge::detail::queue {

struct wheel_level {
    std::uint16_t first;       // the number of its first slot
    std::uint8_t shift;        // the number of bits of a deadline below its digit
    std::uint8_t digit_limit;  // its largest digit, which is also the digit's mask
};

struct wheel_shape {
    static constexpr unsigned levels = 15;
    static constexpr unsigned slots = 448;           // 12 of them, before `staging`, are not used
    static constexpr unsigned staging = slots - 64;  // the first slot of the level `staging`

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

class wheel_slots {
public:
    using shape = wheel_shape;
    using place = std::size_t;  // the number of a slot

    enum class knowledge : std::uint8_t { nothing, least_first, in_order };  // W3

    explicit wheel_slots(tick elapsed) noexcept : elapsed_(elapsed) {
        for (wheel_link& list : lists_)
            list.next_ = list.prev_ = &list;
    }
    ~wheel_slots() = default;
    wheel_slots(const wheel_slots&) = delete;
    wheel_slots& operator=(const wheel_slots&) = delete;

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

    [[nodiscard]] tick elapsed() const noexcept { return elapsed_; }
    void set_elapsed(tick to) noexcept { elapsed_ = to; }  // W1 says where it may go

    // Precondition: deadline > elapsed().
    [[nodiscard]] place place_of(tick deadline) const noexcept {
        const auto bit = 63U ^ static_cast<unsigned>(__builtin_clzll(deadline ^ elapsed_));
        return place_on(wheel_level_by_bit[bit], deadline);
    }

    static place place_on(wheel_level level, tick deadline) noexcept {
        return level.first + ((deadline >> level.shift) & level.digit_limit);
    }

    [[nodiscard]] bool any_in_use() const noexcept { return words_ != 0; }
    [[nodiscard]] bool staging_in_use() const noexcept { return staged() != 0; }

    // A bit for each slot of the level `staging` that is in use.
    [[nodiscard]] std::uint64_t staged() const noexcept { return occupied_[shape::staging / 64]; }

    // The first slot in use by time; one on the level `staging` if there are no others.
    // Precondition: any_in_use().
    [[nodiscard]] place first_place() const noexcept {
        const auto word = static_cast<unsigned>(std::countr_zero(words_));
        return word * 64 + static_cast<unsigned>(std::countr_zero(occupied_[word]));
    }

    // The first slot in use at or after this one, or shape::slots.
    [[nodiscard]] place first_place_from(place at) const noexcept {
        std::uint64_t bits = occupied_[at / 64] >> (at % 64) << (at % 64);
        for (place word = at / 64;;) {
            if (bits != 0) return word * 64 + static_cast<unsigned>(std::countr_zero(bits));
            if (++word == occupied_.size()) return shape::slots;
            bits = occupied_[word];
        }
    }

    // The first tick of the slot: elapsed() with this digit, and zeros below.
    // Precondition: the slot is not on the level `staging`.
    [[nodiscard]] tick start_of(place at) const noexcept {
        const wheel_level level = shape::level(shape::level_of(at));
        const tick above = (elapsed_ >> level.shift) & ~tick{level.digit_limit};
        return (above | (at - level.first)) << level.shift;
    }

    // A tick not after the first deadline in a slot.  Precondition: as for start_of(), and that it
    // is in use.
    [[nodiscard]] tick bound_of(place at) const noexcept {
        return known_[at] != knowledge::nothing ? first_of(lists_[at]).deadline_ : start_of(at);
    }

    // The least deadline in a slot.  If it is not known, walks the list, and remembers what it
    // finds (W3).  Precondition: the slot is in use.
    [[nodiscard]] tick least_of(place at) const noexcept {
        return known_[at] != knowledge::nothing ? first_of(lists_[at]).deadline_ : find_least(at);
    }

    [[nodiscard]] wheel_link& list(place at) noexcept { return lists_[at]; }
    [[nodiscard]] const wheel_link& list(place at) const noexcept { return lists_[at]; }
    [[nodiscard]] knowledge known(place at) const noexcept { return known_[at]; }
    void set_known(place at, knowledge what) noexcept { known_[at] = what; }

    void mark_used(place at) noexcept {
        words_ |= 1U << (at / 64);
        occupied_[at / 64] |= std::uint64_t{1} << (at % 64);
    }

    void mark_empty(place at) noexcept {
        occupied_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
        if (occupied_[at / 64] == 0) words_ &= ~(1U << (at / 64));
    }

    // Timers.

    // Puts a timer with deadline > elapsed() into a slot, keeping W2 and W3.
    void file(wheel_timer& timer, place at) noexcept {
        wheel_link& list = lists_[at];
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

    // Takes a timer out of its list, which need not be a slot's, keeping W3.
    void unlink(wheel_timer& timer) noexcept {
        wheel_link* const next = timer.next_;
        wheel_link* const prev = timer.prev_;
        next->prev_ = prev;
        prev->next_ = next;
        // The slot in whose list it was the first; else an index out of range.
        const place at = (reinterpret_cast<std::uintptr_t>(prev) -
                          reinterpret_cast<std::uintptr_t>(lists_.data())) /
                         sizeof(wheel_link);
        if (at >= lists_.size()) return;
        if (next == prev) {
            mark_empty(at);
        } else if (known_[at] != knowledge::in_order &&
                   as_timer(next).deadline_ != timer.deadline_) {
            known_[at] = knowledge::nothing;
        }
    }

    // Moves the timers of a list to their present places: `due` if the deadline is elapsed(), else
    // a slot.  Returns how many.  Precondition: the list is not empty.
    std::size_t file_again(wheel_link& list, wheel_link& due) noexcept;

    // Whether the bits that say which slots are in use agree with each other, and with the list.
    [[nodiscard]] bool words_are_right() const noexcept;
    [[nodiscard]] bool is_marked_used(place at) const noexcept {
        return ((occupied_[at / 64] >> (at % 64)) & 1U) != 0;
    }

private:
    [[nodiscard]] tick find_least(place at) const noexcept;

    tick elapsed_;
    std::uint32_t words_ = 0;  // a bit for each word of occupied_ that is not 0
    std::array<std::uint64_t, shape::slots / 64> occupied_{};  // a bit for each slot in use
    // Mutable, because least_of() remembers the least deadline by moving its timer to the front.
    mutable std::array<wheel_link, shape::slots> lists_;
    mutable std::array<knowledge, shape::slots> known_{};
};

}  // namespace verge::detail::queue
