// bench/rpc_cross/asio.cpp -- `rpc-cross` on standalone Asio.

#include "rpc_cross/rpc_cross.hpp"
#include "services/asio_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "rpc-cross", .name = "asio", .run = bench::run_rpc_cross<bench::asio_service>}};

}  // namespace
