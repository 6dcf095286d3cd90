// bench/rpc/libevent.cpp -- `rpc` on libevent.

#include "rpc/rpc.hpp"
#include "services/libevent_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "rpc", .name = "libevent", .run = bench::run_rpc<bench::libevent_service>}};

}  // namespace
