// bench/yield/yield.cpp -- the row of `yield` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "yield",
    .summary = "fibers yielding in a ring",
    .params =
        {{.name = "workers", .table = {"1", "2"}, .quick = {"1", "2"}, .least = 1, .most = 64},
         {.name = "fibers",
          .table = {"2", "1000"},
          .quick = {"2", "1000"},
          .least = 1,
          .most = 100'000}},
    .metrics = {{"ns_per_op", "ns"}},
}};

}  // namespace
