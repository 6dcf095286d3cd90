// verge/driver/detail/wake_lead.hpp -- how much before a deadline to set the kernel's wake-up.
//
// A sleeping thread wakes late: by 3 us on a busy processor, 40 us on one in a deep sleep state,
// more in a virtual machine.  Most of that latency recurs with every sleep, so the wake-up is set
// earlier by the latency that 7 of 8 wake-ups exceed.  1 of 8 comes early, and busy-waits for the
// deadline.  A fiber that busy-waits lets others run, so 1 of 4 of its wake-ups may come early.
//
// It adapts with each wake-up: one step up when it was late, 7 (or 3) steps down when it was early.
// So it converges to the quantile at which 1 of 8 (or 4) is early, and follows when that changes.
//
// Thread safety: none; it belongs to the thread that sleeps, or to the worker whose fibers do.

#pragma once

#include <verge/base/clock.hpp>

#include <algorithm>

namespace verge::detail::driver {

class wake_lead {
public:
    /// Targets 1/one_of early wake-ups.  Starts from a lead that another instance has `learned`.
    explicit wake_lead(int one_of, duration learned = duration::zero()) noexcept
        : lead_(learned), down_(one_of - 1) {}

    /// The largest lead: a longer busy-wait would cost more than it gains.
    static constexpr duration most{50'000};

    /// How much before the deadline to wake up.
    [[nodiscard]] duration lead() const noexcept { return lead_; }

    /// Records a wake-up that came `late` after the time that was set.
    void woke(duration late) noexcept {
        const duration step = std::max(duration(100), lead_ / 64);
        lead_ =
            std::clamp(late > lead_ ? lead_ + step : lead_ - down_ * step, duration::zero(), most);
    }

private:
    duration lead_;
    int down_;  // steps down after an early wake-up
};

}  // namespace verge::detail::driver
