// tools/verge/duration_text.hpp -- durations as people write and read them.

#pragma once

#include <verge/base/clock.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace verge::tool {

/// "200ms", "1.5s", "50us", "2m": digits, perhaps with a point, then ns, us, ms, s, m or h. Nothing
/// if it is anything else, is no whole number of nanoseconds, or is too long to be a duration.
[[nodiscard]] std::optional<duration> parse_duration(std::string_view text) noexcept;

/// Exactly, in the greatest unit that needs no more than three decimals: "200 ms", "1.5 s".
[[nodiscard]] std::string duration_text(duration d);

/// To three digits: "847 ns", "52.1 us", "5.73 ms", "1.20 s".
[[nodiscard]] std::string rounded_duration(double nanoseconds);

}  // namespace verge::tool
