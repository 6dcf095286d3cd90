// verge/base/timer_id.hpp -- the id of a scheduled timer, and the results of cancel and reschedule.
//
// An id is a generation and a place in a pool of slots (verge/base/detail/slot_pool.hpp).  It may
// be kept for any time, copied, hashed as an integer, and passed to a C interface as value().
//
// Thread safety: as an int.  Exceptions: none.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace verge {

/// Identifies one scheduled timer of one object.  An id is never reused within a process, so a
/// stale one is harmless.  A value of 8 bytes; a default-constructed one names no timer.
class timer_id {
public:
    constexpr timer_id() noexcept = default;

    /// The id whose value() is `value`.  An integer that no value() returned names no timer.
    constexpr explicit timer_id(std::uint64_t value) noexcept : value_(value) {}

    [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }
    constexpr explicit operator bool() const noexcept { return value_ != 0; }
    friend constexpr bool operator==(timer_id, timer_id) noexcept = default;

private:
    std::uint64_t value_ = 0;
};

/// The result of a cancel.  Exactly one caller gets `cancelled` for a given timer.
enum class cancel_result : std::uint8_t {
    cancelled,  ///< It had not begun, and now never will.
    running,    ///< Its callback is running at this moment, perhaps on the calling thread.
    gone,       ///< It ran to its end, was cancelled before, or never existed.
};

/// The result of a reschedule.
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
