// verge/base/detail/thread_number.hpp -- a small unique number for each thread.
//
// It spreads threads over shards, and identifies the thread that a lock is biased to.

#pragma once

namespace verge::detail {

/// 1 for the first thread that calls it, 2 for the next, and so on; constant for a thread, but a
/// forked child's thread gets a new one.  Never 0.
/// Never inlined: code that may move to another thread must not cache the address it reads.
[[nodiscard]] unsigned thread_number() noexcept;

/// Numbers from here on may be shared by several threads: after 2^31 threads they wrap around.
inline constexpr unsigned shared_number = 1U << 31;

}  // namespace verge::detail
