// tools/demonstration.hpp -- what the verge program shows: a day of time-outs on a timing wheel.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// At least a tick of the day from one call to the next.
inline constexpr std::size_t most_calls = 50'000'000;

/// Runs the day and prints it.  Returns the program's exit code: 0 if every call had exactly one
/// end, at its time.
int demonstrate(std::size_t calls);

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number);
