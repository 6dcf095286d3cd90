// bench/shards/shards.cpp -- `shards`: what chooses the default number of shards.
//
// Not in the table of bench/README.md: it compares Verge with itself.

#include "framework/workload.hpp"
#include "services/thread_run.hpp"

namespace {

std::vector<bench::metric> metrics() {
    std::vector<bench::metric> all = bench::thread_run_metrics();
    all.push_back({.name = "fire_ns", .unit = "ns"});
    return all;
}

const bench::add_workload registered{{
    .name = "shards",
    .summary =
        "`rpc` on a timer thread with so many shards; and what one timer costs that fires alone",
    .params =
        {{.name = "shards",
          .table = {"1", "4", "16", "64", "256"},
          .quick = {"1", "16"},
          .least = 1,
          .most = 1024},
         {.name = "threads",
          .table = {"1", "2", "4", "16", "64"},
          .quick = {"2"},
          .least = 1,
          .most = 256},
         {.name = "window", .table = {"1000"}, .quick = {"1000"}, .least = 1, .most = 10'000'000},
         {.name = "order", .table = {"ascending"}, .quick = {"ascending"}}},
    .metrics = metrics(),
}};

}  // namespace
