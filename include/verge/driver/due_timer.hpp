// verge/driver/due_timer.hpp -- a timer that is due, as timer_service::collect() returns it.

#pragma once

#include <verge/base/timer_id.hpp>
#include <verge/queue/tick.hpp>

#include <cstdint>

namespace verge {

/// Names a due timer; it is not the timer itself, which may be cancelled or rearmed before begin().
struct due_timer {
    timer_id id;
    tick deadline = 0;        ///< In nanoseconds of CLOCK_MONOTONIC.
    std::uint32_t turn = 0;   ///< How often the timer has been collected.
    std::uint32_t shard = 0;  ///< Its shard in the service.
};

}  // namespace verge
