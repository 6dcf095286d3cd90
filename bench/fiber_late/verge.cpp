// bench/fiber_late/verge.cpp -- `fiber-late` on Verge's scheduler.

#include "fiber_late/fiber_late.hpp"
#include "fibers/verge_fibers.hpp"

namespace {

const bench::add_peer registered{
    {.work = "fiber-late", .name = "verge", .run = bench::run_fiber_late<bench::verge_fibers>}};

}  // namespace
