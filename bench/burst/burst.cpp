// bench/burst/burst.cpp -- the row of `burst` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "burst",
    .summary = "n timers due at once on a running service",
    .params = {{.name = "n",
                .table = {"100000", "1000000"},
                .quick = {"10000"},
                .least = 1,
                .most = 10'000'000},
               {.name = "spread", .table = {"instant", "ms"}, .quick = {"instant", "ms"}}},
    .metrics = {{"drain_ms", "ms"}, {"ns_per_timer", "ns"}, {"last_late_ms", "ms"}},
}};

}  // namespace
