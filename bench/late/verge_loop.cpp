// bench/late/verge_loop.cpp -- `late` on Verge's event loop.

#include "late/late.hpp"
#include "services/verge_loop_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "late", .name = "verge-loop", .run = bench::run_late<bench::verge_loop_service>}};

}  // namespace
