// bench/late/asio.cpp -- `late` on standalone Asio.

#include "late/late.hpp"
#include "services/asio_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "late", .name = "asio", .run = bench::run_late<bench::asio_service>}};

}  // namespace
