// support/wheel_access.hpp -- how a wheel is doing with slots of very many timers.
//
// It takes them apart before their time, see verge/queue/detail/wheel_core.hpp.  Tests want to see
// that with few timers.

#pragma once

#include <verge/queue/timing_wheel.hpp>

#include <cstddef>

namespace verge {

struct detail::queue::wheel_access {
    // From now on a slot with more timers is a long one.  An advance then takes one timer, or a
    // 512th of so many, out of the next one.
    template <class T>
    static void set_long_slot(timing_wheel<T>& wheel, std::size_t timers) {
        wheel.core_.long_slot_ = timers;
    }

    template <class T>
    static bool takes_a_slot_apart(const timing_wheel<T>& wheel) {
        return wheel.core_.ahead_in_use();
    }

    // Where the slot begins that it takes apart.  Precondition: there is one.
    template <class T>
    static tick start_of_that(const timing_wheel<T>& wheel) {
        return wheel.core_.start_of(wheel.core_.ahead_);
    }

    template <class T>
    static bool has_taken_it_apart(const timing_wheel<T>& wheel) {
        return takes_a_slot_apart(wheel) &&
               wheel.core_.is_empty(wheel.core_.slots_[wheel.core_.ahead_]);
    }
};

}  // namespace verge
