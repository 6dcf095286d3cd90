// verge/fiber/recursive_mutex.hpp -- the old place of verge/sync/recursive_mutex.hpp; goes with the
// next version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/recursive_mutex.hpp>

namespace verge::fibers {

using recursive_mutex [[deprecated("use verge::recursive_mutex")]] = verge::recursive_mutex;

}  // namespace verge::fibers
