// bench/framework/text.hpp -- the few string functions the framework needs.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// The parts between separators; an empty text has one empty part.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view between);

/// Digits only; none for anything else, or for more than 64 bits.
[[nodiscard]] std::optional<std::uint64_t> parse_integer(std::string_view text);

/// A finite decimal number; none for anything else.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// As a JSON string.
[[nodiscard]] std::string quoted(std::string_view text);

/// As a JSON number: shortest form, never with an exponent; `null` if it is not finite.
[[nodiscard]] std::string json_number(double value);

/// For people: four significant digits or so, thousands in groups of three.
[[nodiscard]] std::string readable_number(double value);

/// Filled with spaces to a width in characters.
[[nodiscard]] std::string pad_right(std::string_view text, std::size_t width);
[[nodiscard]] std::string pad_left(std::string_view text, std::size_t width);

}  // namespace bench
