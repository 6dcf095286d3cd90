// verge/base/detail/thread_number.hpp -- a small number for each thread, to spread threads over
// shards.

#pragma once

namespace verge::detail {

/// 1 for the first thread that asks, 2 for the next, and so on; the same for one thread always.
/// Never inlined: code that may move to another thread must not keep the address it reads.
[[nodiscard]] unsigned thread_number() noexcept;

}  // namespace verge::detail
