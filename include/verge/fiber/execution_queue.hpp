// verge/fiber/execution_queue.hpp -- the old place of verge/fibers/execution_queue.hpp; goes with
// the next version.

#pragma once

#include <verge/fibers/execution_queue.hpp>
