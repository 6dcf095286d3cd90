// bench/framework/runner.hpp -- runs the selected cases, peers interleaved, and compares checksums.

#pragma once

#include "framework/options.hpp"
#include "framework/workload.hpp"

#include <functional>
#include <string>
#include <vector>

namespace bench {

/// One figure: one metric of one peer in one case.
struct figure {
    std::string work;
    std::string peer;
    parameters params;
    std::string metric;
    std::string unit;
    std::vector<double> runs;
    double value = 0;  ///< The median of `runs`.
};

struct run_report {
    std::vector<figure> figures;
    /// Cases whose peers did not do equal work, or threw: one line each.  Their figures are absent.
    std::vector<std::string> failures;
    std::size_t cases = 0;
};

/// Whether a peer was left out that the selection names, or would take part in it.
[[nodiscard]] bool misses_a_peer(const options& selected);

/// Runs everything selected.  Progress goes to stderr; `on_figure` sees each figure as soon as its
/// case is done.
[[nodiscard]] run_report run_selected(const options& selected,
                                      const std::function<void(const figure&)>& on_figure);

}  // namespace bench
