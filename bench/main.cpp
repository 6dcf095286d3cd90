// bench/main.cpp -- verge-bench: every workload on Verge and, in the same run, on its peers.
//
//     verge-bench --work churn --n 1000,1000000 --peers verge,libev --repeat 5 --json out.jsonl
//
// Ends with 0; 1 if peers did unequal work or a run failed; 2 if the command line is wrong.

#include "framework/options.hpp"
#include "framework/report.hpp"
#include "framework/runner.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace {

int run(const std::vector<std::string>& arguments) {
    const bench::options selected = bench::parse_options(arguments);
    if (selected.help || selected.list) {
        std::fputs((selected.help ? bench::usage() : bench::workload_list()).c_str(), stdout);
        return 0;
    }

    std::ofstream json;
    if (!selected.json.empty()) {
        json.open(selected.json, std::ios::app);
        if (!json) throw bench::usage_error("--json: cannot write '" + selected.json + "'");
    }
    const bench::run_report report = bench::run_selected(selected, [&](const bench::figure& f) {
        if (json.is_open()) json << bench::json_line(f) << std::endl;
    });

    if (report.cases == 0) {
        // A missing package fails nothing; a selection that fits nothing is a mistake.
        if (bench::misses_a_peer(selected)) return 0;
        throw bench::usage_error("nothing to run: no selected peer has a selected case");
    }
    if (!report.figures.empty()) {
        std::fputs(bench::result_table(report.figures).c_str(), stdout);
    }
    if (json.is_open() && !json) {
        std::fprintf(stderr, "verge-bench: could not write all of '%s'\n", selected.json.c_str());
        return 1;
    }
    for (const std::string& failure : report.failures) {
        std::fprintf(stderr, "verge-bench: %s\n", failure.c_str());
    }
    return report.failures.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const bench::usage_error& error) {
        std::fprintf(stderr, "verge-bench: %s\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "verge-bench: %s\n", error.what());
        return 1;
    }
}
