// bench/expire/verge_heap.cpp -- `expire` on Verge's timer heap.

#include "expire/expire.hpp"
#include "queues/verge_queue.hpp"

namespace {

const bench::add_peer registered{
    {.work = "expire", .name = "verge-heap", .run = bench::run_expire<bench::verge_heap>}};

}  // namespace
