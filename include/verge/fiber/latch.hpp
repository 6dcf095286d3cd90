// verge/fiber/latch.hpp -- the old place of verge/sync/latch.hpp; goes with the next version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/latch.hpp>

namespace verge::fibers {

using latch [[deprecated("use verge::latch")]] = verge::latch;
using wait_group [[deprecated("use verge::wait_group")]] = verge::wait_group;

}  // namespace verge::fibers
