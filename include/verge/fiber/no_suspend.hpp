// verge/fiber/no_suspend.hpp -- the old place of verge/sync/no_suspend.hpp; goes with the next
// version.

#pragma once

#include <verge/sync/no_suspend.hpp>

namespace verge::fibers {

using no_suspend [[deprecated("use verge::no_suspend")]] = verge::no_suspend;

}  // namespace verge::fibers
