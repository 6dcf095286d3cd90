// tools/verge/json.hpp -- writes JSON, one object at a time.
//
//     json_object o;
//     o.add("engine", "thread").add("calls", std::uint64_t{12}).add("late", 1.5).add("ok", true);
//     o.add("worker_busy", json_array({0.5, 0.25}));
//     o.text()                             //
//     {"engine":"thread","calls":12,"late":1.5,"ok":true,...

#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace verge::tool {

/// JSON that is already written.
struct json_text {
    std::string text;
};

/// With its quotes.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// A number as JSON has it: what is no number is null.
[[nodiscard]] std::string json_number(double value);

[[nodiscard]] json_text json_array(std::span<const double> values);
[[nodiscard]] json_text json_array(std::span<const json_text> values);

class json_object {
public:
    json_object& add(std::string_view name, const json_text& value);
    json_object& add(std::string_view name, std::string_view value);
    json_object& add(std::string_view name, const char* value) {
        return add(name, std::string_view(value));
    }
    json_object& add(std::string_view name, bool value);
    json_object& add(std::string_view name, std::floating_point auto value) {
        return add(name, json_text{json_number(value)});
    }
    json_object& add(std::string_view name, std::integral auto value) {
        return add(name, json_text{std::to_string(value)});
    }

    [[nodiscard]] std::string text() const { return "{" + members_ + "}"; }
    [[nodiscard]] operator json_text() const { return {text()}; }

private:
    std::string members_;
};

}  // namespace verge::tool
