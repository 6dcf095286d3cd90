// bench/sleepers/sleepers.cpp -- the row of `sleepers` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "sleepers",
    .summary = "n fibers asleep at once, deadlines uniform over 10 s after the last fell asleep",
    .params = {{.name = "n",
                .table = {"100000", "1000000"},
                .quick = {"1000"},
                .least = 1,
                .most = 10'000'000}},
    .metrics = {{"bytes_per_fiber", "bytes"},
                {"late_p50_ms", "ms"},
                {"late_p99_ms", "ms"},
                {"lost", "count"}},
    .seconds = 10,
    .quick_seconds = 0.5,
}};

}  // namespace
