// bench/sparse/ref_multimap.cpp -- `sparse` on std::multimap.

#include "queues/multimap_queue.hpp"
#include "sparse/sparse.hpp"

namespace {

const bench::add_peer registered{
    {.work = "sparse", .name = "ref-multimap", .run = bench::run_sparse<bench::multimap_queue>}};

}  // namespace
