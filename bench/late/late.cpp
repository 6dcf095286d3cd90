// bench/late/late.cpp -- the row of `late` in bench/README.md.

#include "framework/workload.hpp"
#include "late/lateness.hpp"

namespace {

const bench::add_workload registered{{
    .name = "late",
    .summary = "a running service: 1000 timers/s, scheduled up front; fire time - deadline",
    .params = {{.name = "load", .table = {"0", "1"}, .quick = {"0", "1"}, .least = 0, .most = 1}},
    .metrics = bench::lateness_metrics(),
    .seconds = 5,
    .quick_seconds = 0.1,
}};

}  // namespace
