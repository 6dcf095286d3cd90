// bench/post/post.cpp -- the row of `post` in bench/README.md.

#include "framework/workload.hpp"

namespace {

const bench::add_workload registered{{
    .name = "post",
    .summary = "functions given to a loop: by one thread outside, or each by the one before it",
    .params = {{.name = "from", .table = {"outside", "inside"}, .quick = {"outside", "inside"}}},
    .metrics = {{"ns_per_op", "ns"}},
}};

}  // namespace
