// bench/churn/verge.cpp -- `churn` on Verge's timing wheel.

#include "churn/churn.hpp"
#include "queues/verge_queue.hpp"

namespace {

const bench::add_peer registered{
    {.work = "churn", .name = "verge", .run = bench::run_churn<bench::verge_wheel>}};

}  // namespace
