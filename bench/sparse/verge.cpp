// bench/sparse/verge.cpp -- `sparse` on Verge's timing wheel.

#include "queues/verge_queue.hpp"
#include "sparse/sparse.hpp"

namespace {

const bench::add_peer registered{
    {.work = "sparse", .name = "verge", .run = bench::run_sparse<bench::verge_wheel>}};

}  // namespace
