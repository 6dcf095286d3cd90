// verge/fiber/fiber.hpp -- the old place of verge/fibers/fiber.hpp; goes with the next version.

#pragma once

#include <verge/fibers/fiber.hpp>

namespace verge::fibers {
using wait_kind [[deprecated("use verge::wait_kind")]] = verge::wait_kind;
}
