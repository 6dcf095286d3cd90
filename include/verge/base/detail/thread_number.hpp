// verge/base/detail/thread_number.hpp -- a small number for each thread: to spread threads over
// shards, and to know one again.

#pragma once

namespace verge::detail {

/// 1 for the first thread that asks, 2 for the next, and so on; the same for one thread always, but
/// another in a forked child.  Never 0.
/// Never inlined: code that may move to another thread must not keep the address it reads.
[[nodiscard]] unsigned thread_number() noexcept;

/// Numbers from here on may be those of several threads: there have been two billion.
inline constexpr unsigned shared_number = 1U << 31;

}  // namespace verge::detail
