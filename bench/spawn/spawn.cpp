// bench/spawn/spawn.cpp -- the row of `spawn` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "spawn",
    .summary = "start + join a fiber, from a fiber, batches of 1000",
    .params =
        {{.name = "workers", .table = {"1", "2"}, .quick = {"1", "2"}, .least = 1, .most = 64}},
    .metrics = {{"ns_per_op", "ns"}},
}};

}  // namespace
