// bench/framework/text.cpp -- the few string functions the framework needs.

#include "framework/text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace bench {

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0;;) {
        const std::size_t end = text.find(separator, begin);
        parts.emplace_back(text.substr(begin, end - begin));
        if (end == std::string_view::npos) return parts;
        begin = end + 1;
    }
}

std::string join(const std::vector<std::string>& parts, std::string_view between) {
    std::string joined;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i != 0) joined += between;
        joined += parts[i];
    }
    return joined;
}

std::optional<std::uint64_t> parse_integer(std::string_view text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

std::optional<double> parse_number(std::string_view text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
    return value;
}

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + '"';
}

std::string json_number(double value) {
    if (!std::isfinite(value)) return "null";
    std::array<char, 400> buffer;  // the longest double has 309 digits before the point
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                            std::chars_format::fixed);
    return error == std::errc{} ? std::string(buffer.data(), end) : "null";
}

std::string readable_number(double value) {
    if (!std::isfinite(value)) return "-";
    const double size = std::fabs(value);
    const bool whole = value == std::floor(value);
    const int decimals = whole || size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 3;
    std::array<char, 400> buffer;
    std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, value);
    std::string text = buffer.data();
    if (decimals != 0) return text;
    const std::size_t first_digit = text[0] == '-' ? 1 : 0;
    for (std::size_t i = text.size(); i > first_digit + 3;) {
        text.insert(i -= 3, 1, ' ');
    }
    return text;
}

std::string pad_right(std::string_view text, std::size_t width) {
    std::string padded(text);
    if (padded.size() < width) padded.append(width - padded.size(), ' ');
    return padded;
}

std::string pad_left(std::string_view text, std::size_t width) {
    std::string padded(text);
    if (padded.size() < width) padded.insert(0, width - padded.size(), ' ');
    return padded;
}

}  // namespace bench
