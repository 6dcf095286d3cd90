// bench/spawn/verge.cpp -- `spawn` on Verge's scheduler.

#include "fibers/verge_fibers.hpp"
#include "spawn/spawn.hpp"

namespace {

const bench::add_peer registered{
    {.work = "spawn", .name = "verge", .run = bench::run_spawn<bench::verge_fibers>}};

}  // namespace
