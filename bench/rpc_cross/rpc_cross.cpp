// bench/rpc_cross/rpc_cross.cpp -- the row of `rpc-cross` in bench/README.md.

#include "framework/workload.hpp"
#include "services/thread_run.hpp"

namespace {

const bench::add_workload registered{{
    .name = "rpc-cross",
    .summary = "as rpc, but each time-out is cancelled by another thread; ids travel in batches",
    .params = {{.name = "threads", .table = {"2", "4"}, .quick = {"2"}, .least = 2, .most = 256}},
    .metrics = bench::thread_run_metrics(),
}};

}  // namespace
