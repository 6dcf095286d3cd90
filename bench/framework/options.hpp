// bench/framework/options.hpp -- the command line of verge-bench.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

struct options {
    bool help = false;
    bool list = false;
    bool quick = false;
    std::vector<std::string> works;                          ///< Empty: all.
    std::vector<std::string> peers;                          ///< Empty: all.
    std::map<std::string, std::vector<std::string>> values;  ///< By parameter.
    std::optional<double> seconds;
    std::optional<std::size_t> repeat;
    std::string json;  ///< A file to append to, or empty.
};

/// What the user typed cannot be done.  `what()` is one line; the program ends with 2.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Throws usage_error for anything unknown: options, works, peers, values.
[[nodiscard]] options parse_options(const std::vector<std::string>& arguments);

[[nodiscard]] std::string usage();

}  // namespace bench
