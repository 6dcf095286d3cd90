// verge/fiber/parallel_for.hpp -- the old place of verge/fibers/parallel_for.hpp; goes with the
// next version.

#pragma once

#include <verge/fibers/parallel_for.hpp>
