// verge/driver/detail/wake_lead.hpp -- how much before a deadline to ask the kernel for a wake-up.
//
// A sleeping thread wakes late, by what the kernel and the machine need: 3 us on a busy processor,
// 40 us on one that had gone to sleep, more in a virtual machine.  Most of that comes back with
// every sleep, so it can be asked for in advance: by the time that seven of eight wake-ups take at
// least.  One of eight comes a little too soon, and waits for the deadline awake.  A fiber that
// waits awake lets others run; so of its wake-ups one of four comes too soon.
//
// It learns from each wake-up: a step up when one came too late, seven (or three) steps down when
// one came too soon.  So it settles where one of eight (or four) is too soon, wherever that is, and
// follows when it moves.
//
// Thread safety: none; it belongs to the thread that sleeps, or to the worker whose fibers do.

#pragma once

#include <verge/base/clock.hpp>

#include <algorithm>

namespace verge::detail {

class wake_lead {
public:
    /// One of so many wake-ups is to come too soon.  Begins with what another has learned.
    explicit wake_lead(int one_of, duration learned = duration::zero()) noexcept
        : lead_(learned), down_(one_of - 1) {}

    /// At most so much: longer waits awake would cost more than they give.
    static constexpr duration most{50'000};

    /// How much before the deadline to wake up.
    [[nodiscard]] duration lead() const noexcept { return lead_; }

    /// A wake-up came so much after the time that was asked for.
    void woke(duration late) noexcept {
        const duration step = std::max(duration(100), lead_ / 64);
        lead_ =
            std::clamp(late > lead_ ? lead_ + step : lead_ - down_ * step, duration::zero(), most);
    }

private:
    duration lead_;
    int down_;  // steps, when one came too soon
};

}  // namespace verge::detail
