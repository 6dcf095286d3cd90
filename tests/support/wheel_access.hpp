// support/wheel_access.hpp -- pre-cascading, seen from a test: with few timers, and step by step.
//
// See verge/queue/detail/wheel_precascade.hpp.

#pragma once

#include <verge/queue/timing_wheel.hpp>

#include <cstddef>

namespace verge {

struct detail::queue::wheel_access {
    // From now on a slot with more timers is long.  An advance then moves max(1, timers / 512)
    // timers out of the next one.
    template <class T>
    static void set_long_slot(timing_wheel<T>& wheel, std::size_t timers) {
        wheel.core_.precascade_.set_long_slot(timers);
    }

    template <class T>
    static bool is_precascading(const timing_wheel<T>& wheel) {
        return wheel.core_.slots_.staging_in_use();
    }

    // The start of the slot that is pre-cascaded.  Precondition: is_precascading().
    template <class T>
    static tick precascaded_start(const timing_wheel<T>& wheel) {
        return wheel.core_.slots_.start_of(wheel.core_.precascade_.slot());
    }

    template <class T>
    static bool has_precascaded(const timing_wheel<T>& wheel) {
        const wheel_core& core = wheel.core_;
        return is_precascading(wheel) &&
               wheel_slots::is_empty(core.slots_.list(core.precascade_.slot()));
    }
};

}  // namespace verge
