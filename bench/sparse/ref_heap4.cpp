// bench/sparse/ref_heap4.cpp -- `sparse` on the reference 4-ary heap.

#include "queues/heap4.hpp"
#include "sparse/sparse.hpp"

namespace {

const bench::add_peer registered{
    {.work = "sparse", .name = "ref-heap4", .run = bench::run_sparse<bench::heap4>}};

}  // namespace
