// bench/remote/remote.cpp -- the row of `remote` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "remote",
    .summary = "1e6 tiny tasks spawned from one outside thread",
    .params =
        {{.name = "workers", .table = {"2", "4"}, .quick = {"2", "4"}, .least = 1, .most = 64}},
    .metrics = {{"ops_per_s", "1/s"}},
}};

}  // namespace
