// verge/fiber/semaphore.hpp -- the old place of verge/sync/semaphore.hpp; goes with the next
// version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/semaphore.hpp>

namespace verge::fibers {

using semaphore [[deprecated("use verge::semaphore")]] = verge::semaphore;

}  // namespace verge::fibers
