// verge/fiber/wait_fd.hpp -- the old place of verge/fibers/wait_fd.hpp; goes with the next version.

#pragma once

#include <verge/fibers/wait_fd.hpp>
