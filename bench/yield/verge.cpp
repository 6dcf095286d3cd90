// bench/yield/verge.cpp -- `yield` on Verge's scheduler.

#include "fibers/verge_fibers.hpp"
#include "yield/yield.hpp"

namespace {

const bench::add_peer registered{
    {.work = "yield", .name = "verge", .run = bench::run_yield<bench::verge_fibers>}};

}  // namespace
