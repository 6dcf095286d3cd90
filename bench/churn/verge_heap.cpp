// bench/churn/verge_heap.cpp -- `churn` on Verge's timer heap.

#include "churn/churn.hpp"
#include "queues/verge_queue.hpp"

namespace {

const bench::add_peer registered{
    {.work = "churn", .name = "verge-heap", .run = bench::run_churn<bench::verge_heap>}};

}  // namespace
