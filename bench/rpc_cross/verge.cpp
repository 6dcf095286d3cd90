// bench/rpc_cross/verge.cpp -- `rpc-cross` on Verge's timer thread.

#include "rpc_cross/rpc_cross.hpp"
#include "services/verge_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "rpc-cross", .name = "verge", .run = bench::run_rpc_cross<bench::verge_service>}};

}  // namespace
