// verge/fiber/blocking.hpp -- the old place of verge/fibers/blocking.hpp; goes with the next
// version.

#pragma once

#include <verge/fibers/blocking.hpp>
