// bench/fairness/go.cpp -- `fairness` on Go's scheduler: runs the program of bench/go/fairness.go.

#include "framework/workload.hpp"
#include "support/go_program.hpp"

namespace {

bench::outcome run_go(const bench::job& asked) {
    return bench::run_go_program("fairness", {std::to_string(asked.params.integer("slice_us")),
                                              std::to_string(asked.params.integer("workers")),
                                              std::to_string(asked.seconds)});
}

const bench::add_peer registered{{.work = "fairness", .name = "go", .run = run_go}};

}  // namespace
