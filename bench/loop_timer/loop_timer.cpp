// bench/loop_timer/loop_timer.cpp -- the row of `loop-timer` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "loop-timer",
    .summary =
        "a ring of timers of one loop: cancel the oldest, arm it again, inside or from outside",
    .params = {{.name = "threads",
                .table = {"0", "1", "2", "4"},
                .quick = {"0", "1", "2"},
                .least = 0,
                .most = 64},
               {.name = "window",
                .table = {"1000", "1000000"},
                .quick = {"1000"},
                .least = 1,
                .most = 10'000'000}},
    .metrics = {{"ns_per_op", "ns"}, {"bytes_per_timer", "bytes"}},
    .in_table =
        [](const bench::parameters& params) {
            return params.integer("window") == 1000 || params.integer("threads") == 0;
        },
}};

}  // namespace
