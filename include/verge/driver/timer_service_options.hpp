// verge/driver/timer_service_options.hpp -- the settings of a timer service.

#pragma once

#include <verge/base/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace verge {

/// How the shards of a timer service are locked.  Figures: docs/design/timer_thread.md.
enum class shard_locks : std::uint8_t {
    /// A shard's lock is biased to the thread that uses it most, which takes it without an atomic
    /// read-modify-write.  A thread that uses another thread's shard, such as the waiter, pays one
    /// membarrier, which interrupts every thread of the process that is running on a processor.
    /// Right where threads arm and cancel their own timers at a high rate.  The first service of
    /// this kind registers the process with the kernel: up to 15 ms if it has several threads.
    biased,
    /// A spin lock: about 8 ns more for each operation, and no membarrier.  Right where most timers
    /// are cancelled by other threads, or where no thread may be interrupted.
    plain,
    /// No lock: no two threads ever use the service concurrently.
    none,
};

struct timer_service_options {
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    std::size_t shards = 16;             ///< 1 to 1024.  See docs/benchmarks.md for the curve.
    std::size_t reserve = 0;             ///< Timers to allocate for, spread over the shards.
    std::size_t max_timers = unlimited;  ///< Timers not ended.  Arming more returns an empty id.
    time_point start = {};               ///< A time not after the first collect().
    shard_locks locks = shard_locks::biased;
};

}  // namespace verge
