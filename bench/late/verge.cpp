// bench/late/verge.cpp -- `late` on Verge's timer thread.

#include "late/late.hpp"
#include "services/verge_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "late", .name = "verge", .run = bench::run_late<bench::verge_service>}};

}  // namespace
