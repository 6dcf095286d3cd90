// bench/rpc/verge.cpp -- `rpc` on Verge's timer thread.

#include "rpc/rpc.hpp"
#include "services/verge_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "rpc", .name = "verge", .run = bench::run_rpc<bench::verge_service>}};

}  // namespace
