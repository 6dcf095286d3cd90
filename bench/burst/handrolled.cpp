// bench/burst/handrolled.cpp -- `burst` on the hand-rolled timer thread.

#include "burst/burst.hpp"
#include "services/handrolled_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "burst", .name = "handrolled", .run = bench::run_burst<bench::handrolled_service>}};

}  // namespace
