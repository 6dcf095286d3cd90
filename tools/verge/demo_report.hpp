// tools/verge/demo_report.hpp -- a finished run of the demo as a page, and as JSON.

#pragma once

#include "view.hpp"

#include <string>
#include <string_view>

namespace verge::tool {

/// `wrong` as of what_is_wrong.
[[nodiscard]] std::string demo_page(const demo_run& run, std::string_view wrong);
[[nodiscard]] std::string demo_json(const demo_run& run, std::string_view wrong);

}  // namespace verge::tool
