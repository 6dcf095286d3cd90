// tools/verge/json.cpp -- writes JSON text.

#include "json.hpp"

#include <cmath>

#include <fmt/format.h>

namespace verge::tool {

std::string json_quoted(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            quoted += '\\';
            quoted += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            quoted += c;
        }
    }
    return quoted + '"';
}

std::string json_number(double value) {
    return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

json_text json_array(std::span<const double> values) {
    std::string text;
    for (const double value : values) {
        if (!text.empty()) text += ',';
        text += json_number(value);
    }
    return {"[" + text + "]"};
}

json_text json_array(std::span<const json_text> values) {
    std::string text;
    for (const json_text& value : values) {
        if (!text.empty()) text += ',';
        text += value.text;
    }
    return {"[" + text + "]"};
}

json_object& json_object::add(std::string_view name, const json_text& value) {
    if (!members_.empty()) members_ += ',';
    members_ += json_quoted(name) + ':' + value.text;
    return *this;
}

json_object& json_object::add(std::string_view name, std::string_view value) {
    return add(name, json_text{json_quoted(value)});
}

json_object& json_object::add(std::string_view name, bool value) {
    return add(name, json_text{value ? "true" : "false"});
}

}  // namespace verge::tool
