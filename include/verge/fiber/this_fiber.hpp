// verge/fiber/this_fiber.hpp -- the old place of verge/fibers/this_fiber.hpp; goes with the next
// version.

#pragma once

#include <verge/fiber/fiber.hpp>
#include <verge/fibers/this_fiber.hpp>
