// verge/base/timer_id.hpp -- the name of one scheduled timer, and what became of it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace verge {

/// Names one scheduled timer of one object, for ever: an id is never given out twice in a process,
/// so a stale one is harmless.  A value of 8 bytes, cheap to copy; the default names no timer.
class timer_id {
public:
    constexpr timer_id() noexcept = default;

    /// An id as the integer that value() gave.  Any other integer names no timer.
    constexpr explicit timer_id(std::uint64_t value) noexcept : value_(value) {}

    [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }
    constexpr explicit operator bool() const noexcept { return value_ != 0; }
    friend constexpr bool operator==(timer_id, timer_id) noexcept = default;

private:
    std::uint64_t value_ = 0;
};

/// What a cancel found.  Exactly one caller gets `cancelled` for a given timer.
enum class cancel_result : std::uint8_t {
    cancelled,  ///< It had not begun, and now never will.
    running,    ///< Its callback is running at this moment, perhaps on the calling thread.
    gone,       ///< It ran to its end, was cancelled before, or never existed.
};

/// What a reschedule found.
enum class reschedule_result : std::uint8_t {
    pending,  ///< It had not begun, and now has the new deadline.
    running,  ///< Its callback is running at this moment: too late.
    gone,     ///< It ran to its end, was cancelled before, or never existed.
};

}  // namespace verge

template <>
struct std::hash<verge::timer_id> {
    std::size_t operator()(verge::timer_id id) const noexcept {
        return std::hash<std::uint64_t>{}(id.value());
    }
};
