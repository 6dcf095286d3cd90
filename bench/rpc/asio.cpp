// bench/rpc/asio.cpp -- `rpc` on standalone Asio.

#include "rpc/rpc.hpp"
#include "services/asio_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "rpc", .name = "asio", .run = bench::run_rpc<bench::asio_service>}};

}  // namespace
