// tools/verge/duration_text.cpp -- parses and prints durations.

#include "duration_text.hpp"

#include <array>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>

namespace verge::tool {

namespace {

struct unit {
    std::string_view name;
    std::int64_t nanoseconds;
};

constexpr std::array<unit, 6> units{{
    {"h", 3'600'000'000'000},
    {"m", 60'000'000'000},
    {"s", 1'000'000'000},
    {"ms", 1'000'000},
    {"us", 1'000},
    {"ns", 1},
}};

constexpr std::size_t seconds_at = 2;  // in units: what is below is a thousandth of it

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

}  // namespace

std::optional<duration> parse_duration(std::string_view text) noexcept {
    std::size_t at = 0;
    std::size_t digits = 0;
    std::int64_t value = 0;  // of all digits, as if there was no point
    std::int64_t scale = 1;  // 10 for each digit after it
    bool point = false;
    for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !point)); ++at) {
        if (text[at] == '.') {
            point = true;
            continue;
        }
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[at] - '0', &value)) {
            return std::nullopt;
        }
        if (point) scale *= 10;  // no more digits than value has: it does not overflow
        if (++digits > 18) return std::nullopt;
    }
    if (digits == 0 || text[at - 1] == '.' || text.front() == '.') return std::nullopt;
    for (const unit& each : units) {
        if (text.substr(at) != each.name) continue;
        // value * nanoseconds / scale, without a product that overflows where the result does not.
        const std::int64_t common = std::gcd(each.nanoseconds, scale);
        std::int64_t count = value / (scale / common);
        if (value % (scale / common) != 0) return std::nullopt;
        if (__builtin_mul_overflow(count, each.nanoseconds / common, &count)) return std::nullopt;
        return duration(count);
    }
    return std::nullopt;
}

std::string duration_text(duration d) {
    const std::int64_t count = d.count();
    for (std::size_t i = seconds_at; i < units.size(); ++i) {
        const unit& each = units[i];
        const std::int64_t thousandth = each.nanoseconds / 1000;
        if (count < each.nanoseconds || (thousandth > 0 && count % thousandth != 0)) continue;
        return fmt::format(
            "{} {}", static_cast<double>(count) / static_cast<double>(each.nanoseconds), each.name);
    }
    return fmt::format("{} ns", count);
}

std::string rounded_duration(double nanoseconds) {
    for (std::size_t i = seconds_at; i < units.size(); ++i) {
        const double value = nanoseconds / static_cast<double>(units[i].nanoseconds);
        // What rounds to 1000 of a unit is 1 of the next.
        if (value < 0.9995 && i + 1 < units.size()) continue;
        if (units[i].nanoseconds == 1) return fmt::format("{:.0f} ns", value);
        const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
        return fmt::format("{:.{}f} {}", value, decimals, units[i].name);
    }
    return {};
}

}  // namespace verge::tool
