// bench/burst/libuv.cpp -- `burst` on libuv.

#include "burst/burst.hpp"
#include "services/libuv_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "burst", .name = "libuv", .run = bench::run_burst<bench::libuv_service>}};

}  // namespace
