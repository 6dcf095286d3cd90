// verge/fiber/shared_mutex.hpp -- the old place of verge/sync/shared_mutex.hpp; goes with the next
// version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/shared_mutex.hpp>

namespace verge::fibers {

using shared_mutex [[deprecated("use verge::shared_mutex")]] = verge::shared_mutex;

}  // namespace verge::fibers
