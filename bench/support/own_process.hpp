// bench/support/own_process.hpp -- runs a peer in a separate process.
//
// For libraries with state that a process can set up only once.  The process is a fork: it starts
// with one thread, so `run` must not count on threads that others have started.

#pragma once

#include "framework/workload.hpp"

#include <functional>

namespace bench {

/// What `run` returned there.  Throws std::runtime_error with what it threw, or if it crashed.
[[nodiscard]] outcome in_own_process(const std::function<outcome()>& run);

}  // namespace bench
