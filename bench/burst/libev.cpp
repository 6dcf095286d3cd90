// bench/burst/libev.cpp -- `burst` on libev.

#include "burst/burst.hpp"
#include "services/libev_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "burst", .name = "libev", .run = bench::run_burst<bench::libev_service>}};

}  // namespace
