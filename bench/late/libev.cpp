// bench/late/libev.cpp -- `late` on libev.

#include "late/late.hpp"
#include "services/libev_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "late", .name = "libev", .run = bench::run_late<bench::libev_service>}};

}  // namespace
