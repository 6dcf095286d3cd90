// bench/expire/expire.cpp -- the row of `expire` in bench/README.md.
//
// Peers that read a clock themselves cannot play it: only Verge's queues and the references.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "expire",
    .summary = "one thread, virtual time: n timers over 10 s, then advance by 1 ms until empty",
    .params = {{.name = "n",
                .table = {"1000", "100000", "1000000"},
                .quick = {"1000", "10000"},
                .least = 1,
                .most = 100'000'000}},
    .metrics = {{"insert_ns", "ns"}, {"expire_ns", "ns"}},
}};

}  // namespace
