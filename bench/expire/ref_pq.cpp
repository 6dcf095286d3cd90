// bench/expire/ref_pq.cpp -- `expire` on std::priority_queue with lazy deletion.

#include "expire/expire.hpp"
#include "queues/pq_queue.hpp"

namespace {

const bench::add_peer registered{
    {.work = "expire", .name = "ref-pq", .run = bench::run_expire<bench::pq_queue>}};

}  // namespace
