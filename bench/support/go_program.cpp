// bench/support/go_program.cpp -- starts a Go program and reads its figures.

#include "support/go_program.hpp"

#include <cstdio>
#include <stdexcept>

namespace bench {

outcome run_go_program(const std::string& name, const std::vector<std::string>& args) {
    std::string command = std::string(VERGE_BENCH_GO_PROGRAMS) + "/" + name;
    for (const std::string& each : args)
        command += " " + each;
    std::FILE* const output = ::popen(command.c_str(), "re");
    if (output == nullptr) throw std::runtime_error("cannot start " + command);
    outcome found;
    char metric[64];
    double value = 0;
    while (std::fscanf(output, "%63s %lf", metric, &value) == 2)
        found.figures[metric] = value;
    if (::pclose(output) != 0) throw std::runtime_error(command + " failed");
    return found;
}

}  // namespace bench
