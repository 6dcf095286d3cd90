// bench/churn/churn.cpp -- the row of `churn` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "churn",
    .summary = "one thread, n live timers, deadlines 1 ms to 1 h: cancel one, insert it again",
    .params = {{.name = "n",
                .table = {"1000", "100000", "1000000", "10000000"},
                .quick = {"1000", "10000"},
                .least = 1,
                .most = 100'000'000}},
    .metrics = {{"ns_per_op", "ns"}, {"bytes_per_timer", "bytes"}},
}};

}  // namespace
