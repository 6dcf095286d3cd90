// bench/burst/verge_loop.cpp -- `burst` on Verge's event loop.

#include "burst/burst.hpp"
#include "services/verge_loop_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "burst", .name = "verge-loop", .run = bench::run_burst<bench::verge_loop_service>}};

}  // namespace
