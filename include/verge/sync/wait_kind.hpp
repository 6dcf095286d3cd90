// verge/sync/wait_kind.hpp -- what a fiber or thread waits for, for statistics and debuggers.
//
// scheduler::stats() counts fibers by it, scheduler::stop() reports it for fibers that do not end,
// and tools/gdb/verge.py shows it.

#pragma once

#include <cstdint>

namespace verge {

enum class wait_kind : std::uint8_t {
    nothing,     ///< It runs, or is ready to run.
    sleep,       ///< A time.
    word,        ///< A notify of a word: verge::wait().
    join,        ///< The end of another fiber.
    descriptor,  ///< A file descriptor to become ready.
    helper,      ///< A call that a helper thread makes for it.
    mutex,       ///< A mutex of any kind.
    condition,   ///< A condition variable.
    stack,       ///< A stack, which the kernel refused; it has not run yet.
};

}  // namespace verge
