// bench/support/percentile.hpp -- a value that a share of all values does not exceed.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bench {

/// 0 if there are no values.  Precondition: they are sorted; `share` is in [0, 1].
[[nodiscard]] inline double percentile(const std::vector<double>& sorted, double share) {
    if (sorted.empty()) return 0;
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
    return sorted[std::min(rank, sorted.size() - 1)];
}

}  // namespace bench
