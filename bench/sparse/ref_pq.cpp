// bench/sparse/ref_pq.cpp -- `sparse` on std::priority_queue with lazy deletion.

#include "queues/pq_queue.hpp"
#include "sparse/sparse.hpp"

namespace {

const bench::add_peer registered{
    {.work = "sparse", .name = "ref-pq", .run = bench::run_sparse<bench::pq_queue>}};

}  // namespace
