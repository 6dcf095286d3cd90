// support/wheel_seams.hpp -- where the timing wheel's levels and slots begin, for tests that try
// what happens there.  Written down again and not taken from the wheel, which may be wrong.

#pragma once

#include <verge/queue/tick.hpp>

namespace verge {

inline constexpr unsigned wheel_levels = 15;

// The ticks that a slot of a level stands for.
constexpr tick slot_span(unsigned level) {
    return tick{1} << (level <= 3 ? 6 * level : 18 + 4 * (level - 3));
}

constexpr tick slots_on(unsigned level) {
    return level < 3 ? 64 : level < wheel_levels - 1 ? 16 : 4;
}

}  // namespace verge
