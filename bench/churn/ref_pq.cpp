// bench/churn/ref_pq.cpp -- `churn` on std::priority_queue with lazy deletion.

#include "churn/churn.hpp"
#include "queues/pq_queue.hpp"

namespace {

const bench::add_peer registered{
    {.work = "churn", .name = "ref-pq", .run = bench::run_churn<bench::pq_queue>}};

}  // namespace
