// verge/io/detail/sleep_for.hpp -- blocks the calling thread for a while.
//
// For basic_waitable_timer::wait(), which reads its clock again afterwards.

#pragma once

#include <verge/base/clock.hpp>

namespace verge::detail::io {

/// Sleeps for `time` of CLOCK_MONOTONIC.  A signal ends it early.
void sleep_for(duration time) noexcept;

}  // namespace verge::detail::io
