// verge/fiber/scheduler.hpp -- the old place of verge/fibers/scheduler.hpp; goes with the next
// version.

#pragma once

#include <verge/fiber/fiber.hpp>
#include <verge/fibers/scheduler.hpp>
