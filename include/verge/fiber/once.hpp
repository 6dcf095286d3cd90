// verge/fiber/once.hpp -- the old place of verge/sync/once.hpp; goes with the next version.

#pragma once

#include <verge/fiber/wait.hpp>
#include <verge/sync/once.hpp>

#include <utility>

namespace verge::fibers {

using once_flag [[deprecated("use verge::once_flag")]] = verge::once_flag;

template <class F, class... Args>
[[deprecated("use verge::call_once")]] void call_once(once_flag& flag, F&& f, Args&&... args) {
    verge::call_once(flag, std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace verge::fibers
