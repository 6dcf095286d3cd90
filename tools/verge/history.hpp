// tools/verge/history.hpp -- the samples of a run, however long it is, in bounded memory.

#pragma once

#include "sample.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace verge::tool {

/// Keeps every sample, until there are `most`; then two neighbours become one, and so again.  What
/// became one has the mean of the rates and the worst of the latenesses: a plot hides no spike.
class history {
public:
    static constexpr std::size_t most = 1200;

    void add(const sample& next);

    /// Without the histograms and workers, but for the last.
    [[nodiscard]] std::span<const sample> samples() const noexcept { return kept_; }
    [[nodiscard]] bool empty() const noexcept { return kept_.empty(); }
    [[nodiscard]] const sample& last() const noexcept { return kept_.back(); }

private:
    std::vector<sample> kept_;
    std::size_t together_ = 1;  // samples that one of kept_ represents
    std::size_t in_last_ = 0;   // how many the last one represents so far
};

}  // namespace verge::tool
