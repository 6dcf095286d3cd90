// verge/fiber/mutex.hpp -- the old place of verge/sync/mutex.hpp; goes with the next version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/mutex.hpp>

namespace verge::fibers {

using mutex [[deprecated("use verge::mutex")]] = verge::mutex;

}  // namespace verge::fibers
