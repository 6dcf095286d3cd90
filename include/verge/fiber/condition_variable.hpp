// verge/fiber/condition_variable.hpp -- the old place of verge/sync/condition_variable.hpp; goes
// with the next version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/condition_variable.hpp>

namespace verge::fibers {

using condition_variable [[deprecated("use verge::condition_variable")]] =
    verge::condition_variable;

}  // namespace verge::fibers
