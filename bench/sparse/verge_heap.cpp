// bench/sparse/verge_heap.cpp -- `sparse` on Verge's timer heap.

#include "queues/verge_queue.hpp"
#include "sparse/sparse.hpp"

namespace {

const bench::add_peer registered{
    {.work = "sparse", .name = "verge-heap", .run = bench::run_sparse<bench::verge_heap>}};

}  // namespace
