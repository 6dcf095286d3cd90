// bench/burst/asio.cpp -- `burst` on standalone Asio.

#include "burst/burst.hpp"
#include "services/asio_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "burst", .name = "asio", .run = bench::run_burst<bench::asio_service>}};

}  // namespace
