// bench/burst/libevent.cpp -- `burst` on libevent.

#include "burst/burst.hpp"
#include "services/libevent_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "burst", .name = "libevent", .run = bench::run_burst<bench::libevent_service>}};

}  // namespace
