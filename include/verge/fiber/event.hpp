// verge/fiber/event.hpp -- the old place of verge/sync/event.hpp; goes with the next version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/event.hpp>

namespace verge::fibers {

using event [[deprecated("use verge::event")]] = verge::event;
using auto_reset_event [[deprecated("use verge::auto_reset_event")]] = verge::auto_reset_event;

}  // namespace verge::fibers
