// tools/verge/live_page.hpp -- the sources of the live page, page/live.*, as the build embeds them.

#pragma once

#include <string_view>

namespace verge::tool {

extern const std::string_view live_html;
extern const std::string_view live_css;
extern const std::string_view live_js;

}  // namespace verge::tool
