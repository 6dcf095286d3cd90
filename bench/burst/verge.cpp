// bench/burst/verge.cpp -- `burst` on Verge's timer thread.

#include "burst/burst.hpp"
#include "services/verge_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "burst", .name = "verge", .run = bench::run_burst<bench::verge_service>}};

}  // namespace
