// verge/queue/detail/wheel_core.hpp -- the timing wheel itself, on plain nodes.
//
// wheel_slots.hpp says where a timer is filed (W1 to W3), wheel_precascade.hpp how a long slot is
// emptied in small steps (W6); this one arms, cancels and advances.
//
// When the least deadline m of the first slot in use is due, the wheel's position moves to m in one
// step, timers due at m go to the due_ list, and the others of the slot are cascaded to lower
// levels.  Ticks at which nothing is due are never visited.
//
// Invariants (check() verifies them)
//   W4  now_ >= elapsed(), the position of slots_.  Timers with deadline <= now_ are in due_, in
//       fresh_, or in slots; the latter only while behind_: inside an advance, or after one that
//       ended early because it ran out of budget or a callback threw.
//   W5  due_ holds what this advance fires next.  fresh_ holds timers armed for now_ or before:
//       they fire on the next advance, so that a timer that re-arms itself with 0 cannot loop.

#pragma once

#include <verge/queue/detail/wheel_precascade.hpp>
#include <verge/queue/detail/wheel_slots.hpp>
#include <verge/queue/tick.hpp>
#include <verge/queue/wheel_timer.hpp>

#include <cstddef>
#include <optional>

namespace verge::detail::queue {

struct wheel_access;  // for tests

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
            wheel_slots::append(parked_, timer);
        } else {
            slots_.file(timer, slots_.place_of(deadline));
        }
    }

    void arm_next(wheel_timer& timer, tick deadline) noexcept {
        if (running_ == nullptr || deadline > now_ || deadline <= running_->firing) {
            arm(timer, deadline);
            return;
        }
        adopt(timer);
        timer.deadline_ = deadline;
        slots_.file(timer, slots_.place_of(deadline));
    }

    /// Precondition: the timer is armed here.
    void remove(wheel_timer& timer) noexcept {
        slots_.unlink(timer);
        timer.home_ = nullptr;
        --size_;
    }

    template <class Fire>
    std::size_t advance(tick now, Fire&& fire, std::size_t budget) {
        if (running_ != nullptr) return 0;
        if (now == never_tick) --now;  // timers armed for never_tick are not due then either
        if (now > now_) now_ = now;
        advance_scope scope(*this);
        wheel_slots::splice(due_, fresh_);
        std::size_t fired = 0;
        while (fired < budget) {
            if (wheel_slots::is_empty(due_) && !collect_due()) {
                scope.caught_up = true;
                break;
            }
            wheel_timer& timer = wheel_slots::first_of(due_);
            remove(timer);
            ++fired;
            scope.firing = timer.deadline_;
            fire(timer);
            if (scope.wheel_gone) break;
        }
        return fired;
    }

    [[nodiscard]] std::optional<tick> next_bound() const noexcept {
        if (!wheel_slots::is_empty(due_)) return wheel_slots::first_of(due_).deadline_;
        tick bound =
            wheel_slots::is_empty(fresh_) ? never_tick : wheel_slots::first_of(fresh_).deadline_;
        if (slots_.any_in_use()) {
            const tick least = precascade_.is_first(slots_) ? precascade_.bound(slots_)
                                                            : slots_.bound_of(slots_.first_place());
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
        wheel_slots::for_each_of(due_, visit);
        wheel_slots::for_each_of(fresh_, visit);
        wheel_slots::for_each_of(parked_, visit);
        for (place at = 0; at < wheel_shape::slots; ++at)
            wheel_slots::for_each_of(slots_.list(at), visit);
    }

private:
    friend class verge::wheel_timer;
    friend struct wheel_access;

    using place = wheel_slots::place;
    using knowledge = wheel_slots::knowledge;

    // Lives on the stack of advance(), and outlives the wheel if a callback destroys it.
    struct advance_scope {
        explicit advance_scope(wheel_core& of) noexcept : wheel(of) { of.running_ = this; }
        ~advance_scope() {
            if (!wheel_gone) wheel.settle(caught_up);
        }
        advance_scope(const advance_scope&) = delete;
        advance_scope& operator=(const advance_scope&) = delete;

        wheel_core& wheel;
        tick firing = 0;  // the deadline of the timer that is firing: not before elapsed()
        bool wheel_gone = false;
        bool caught_up = false;
    };

    void adopt(wheel_timer& timer) noexcept {
        if (timer.home_ != nullptr) timer.home_->remove(timer);
        timer.home_ = this;
        ++size_;
    }

    void arm_due(wheel_timer& timer) noexcept;
    bool collect_due() noexcept;
    [[gnu::noinline]] bool collect_precascaded() noexcept;
    [[gnu::noinline]] bool collect_unsorted(place at) noexcept;
    void empty_slot(place at, tick to) noexcept;
    void settle(bool caught_up) noexcept;
    [[gnu::noinline]] void file_fresh() noexcept;
    [[nodiscard]] const char* check_slot(place at, std::size_t& seen) const noexcept;

    wheel_link due_{&due_, &due_};
    wheel_link fresh_{&fresh_, &fresh_};
    wheel_link parked_{&parked_, &parked_};  // armed for never
    advance_scope* running_ = nullptr;
    bool behind_ = false;
    std::size_t size_ = 0;
    tick now_;
    wheel_slots slots_;
    wheel_precascade precascade_;
};

static_assert(sizeof(wheel_core) <= 8192, "an empty wheel is small");

}  // namespace verge::detail::queue
