// bench/fiber_late/fiber_late.cpp -- the row of `fiber-late` in bench/README.md.

#include "framework/workload.hpp"
#include "late/lateness.hpp"

namespace {

const bench::add_workload registered{{
    .name = "fiber-late",
    .summary = "`late` through fiber sleep: 1000 fibers/s wake up, spawned up front",
    .params = {{.name = "load", .table = {"0", "1"}, .quick = {"0", "1"}, .least = 0, .most = 1}},
    .metrics = bench::lateness_metrics(),
    .seconds = 5,
    .quick_seconds = 0.1,
}};

}  // namespace
