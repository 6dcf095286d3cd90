// bench/framework/report.hpp -- the forms in which figures leave the program.

#pragma once

#include "framework/runner.hpp"

#include <string>
#include <vector>

namespace bench {

/// One line of the JSON, without the newline.
[[nodiscard]] std::string json_line(const figure& f);

/// The closing table: each figure and its ratio to Verge's.
[[nodiscard]] std::string result_table(const std::vector<figure>& figures);

/// What --list prints.
[[nodiscard]] std::string workload_list();

}  // namespace bench
