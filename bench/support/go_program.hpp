// bench/support/go_program.hpp -- runs a peer that is a Go program of bench/go/.

#pragma once

#include "framework/workload.hpp"

#include <string>
#include <vector>

namespace bench {

/// Runs the program of that name, which prints one "metric value" a line.  Throws
/// std::runtime_error if it does not end with 0.
[[nodiscard]] outcome run_go_program(const std::string& name, const std::vector<std::string>& args);

}  // namespace bench
