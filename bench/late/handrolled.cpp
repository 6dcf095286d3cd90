// bench/late/handrolled.cpp -- `late` on the hand-rolled timer thread.

#include "late/late.hpp"
#include "services/handrolled_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "late", .name = "handrolled", .run = bench::run_late<bench::handrolled_service>}};

}  // namespace
