// bench/rpc/handrolled.cpp -- `rpc` on the hand-rolled timer thread.

#include "rpc/rpc.hpp"
#include "services/handrolled_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "rpc", .name = "handrolled", .run = bench::run_rpc<bench::handrolled_service>}};

}  // namespace
