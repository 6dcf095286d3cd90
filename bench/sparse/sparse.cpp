// bench/sparse/sparse.cpp -- the row of `sparse` in bench/README.md.
//
// Peers that read a clock themselves cannot play it: only Verge's queues and the references.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "sparse",
    .summary = "one thread, virtual time: 100 timers over 24 h, one advance; next-expiry questions",
    .params = {},
    .metrics = {{"advance_us", "us"}, {"next_ns", "ns"}, {"wakeups", "count"}},
}};

}  // namespace
