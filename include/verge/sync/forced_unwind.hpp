// verge/sync/forced_unwind.hpp -- what a wait throws that a stop or a deadline ends.

#pragma once

#include <cstdint>

namespace verge {

enum class unwind_reason : std::uint8_t {
    stopped,   ///< A stop was requested of the fiber.
    deadline,  ///< The deadline in force has passed (verge/sync/cancellation.hpp).
};

/// Ends the fiber, or the scope whose deadline it was, by unwinding the stack.  Not derived from
/// std::exception: a handler for errors lets it pass.  One that catches everything must throw it
/// again.
class forced_unwind {
public:
    explicit forced_unwind(unwind_reason why) noexcept : reason_(why) {}
    [[nodiscard]] unwind_reason reason() const noexcept { return reason_; }

private:
    unwind_reason reason_;
};

}  // namespace verge
