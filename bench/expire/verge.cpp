// bench/expire/verge.cpp -- `expire` on Verge's timing wheel.

#include "expire/expire.hpp"
#include "queues/verge_queue.hpp"

namespace {

const bench::add_peer registered{
    {.work = "expire", .name = "verge", .run = bench::run_expire<bench::verge_wheel>}};

}  // namespace
