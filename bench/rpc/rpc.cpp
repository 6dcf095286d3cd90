// bench/rpc/rpc.cpp -- the row of `rpc` in bench/README.md.

#include "framework/workload.hpp"
#include "services/thread_run.hpp"

namespace {

const bench::add_workload registered{{
    .name = "rpc",
    .summary = "T threads, each a ring of live time-outs: cancel the oldest, schedule now + 1 s",
    .params = {{.name = "threads",
                .table = {"1", "2", "4"},
                .quick = {"1", "2"},
                .least = 1,
                .most = 256},
               {.name = "window",
                .table = {"1000", "100000"},
                .quick = {"1000"},
                .least = 1,
                .most = 10'000'000},
               {.name = "order",
                .table = {"ascending", "descending"},
                .quick = {"ascending", "descending"}}},
    .metrics = bench::thread_run_metrics(),
}};

}  // namespace
