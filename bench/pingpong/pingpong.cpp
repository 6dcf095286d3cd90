// bench/pingpong/pingpong.cpp -- the row of `pingpong` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "pingpong",
    .summary = "two fibers pass a ball through a mutex and a condition variable",
    .params =
        {{.name = "workers", .table = {"1", "2"}, .quick = {"1", "2"}, .least = 1, .most = 64}},
    .metrics = {{"ns_per_op", "ns"}},
}};

}  // namespace
