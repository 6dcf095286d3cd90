// bench/fairness/fairness.cpp -- the row of `fairness` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "fairness",
    .summary =
        "two fibers a worker that compute for a slice between yields; beside them a sleep of "
        "10 ms, and a spawn + join from outside",
    .params =
        {{.name = "slice_us",
          .table = {"10", "100", "1000", "5000"},
          .quick = {"100"},
          .least = 1,
          .most = 1'000'000},
         {.name = "workers", .table = {"1", "2", "4"}, .quick = {"1"}, .least = 1, .most = 64}},
    .metrics = {{"sleep_late_p50_ms", "ms"},
                {"sleep_late_max_ms", "ms"},
                {"spawn_p50_ms", "ms"},
                {"spawn_max_ms", "ms"}},
}};

}  // namespace
