// tools/verge/load_change.hpp -- what a browser or a script may change of a load while it runs.
//
// It comes as a form (rate=1000&timeout=50ms) or as flat JSON ({"rate": 1000, "engine": "fiber"}).

#pragma once

#include "load.hpp"
#include <verge/base/clock.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verge::tool {

/// What is wrong with a text that came from outside, as a message for the sender.
class bad_text : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

using text_fields = std::vector<std::pair<std::string, std::string>>;

/// The fields of application/x-www-form-urlencoded.  Throws bad_text.
[[nodiscard]] text_fields fields_of_form(std::string_view text);

/// The members of one JSON object whose values are strings, numbers, true, false or null; numbers
/// and the like as they are written.  Throws bad_text, also for objects and arrays inside.
[[nodiscard]] text_fields fields_of_json(std::string_view text);

struct load_change {
    std::optional<double> rate;
    std::optional<duration> time_out;
    std::optional<engine_kind> engine;
    std::string token;  // that the page was given
};

/// From rate, timeout, engine and token.  Throws bad_text for other names, a name that appears
/// twice, and values out of their range.
[[nodiscard]] load_change change_from(const text_fields& fields);

}  // namespace verge::tool
