// bench/late/libuv.cpp -- `late` on libuv.

#include "late/late.hpp"
#include "services/libuv_service.hpp"

namespace {

const bench::add_peer registered{
    {.work = "late", .name = "libuv", .run = bench::run_late<bench::libuv_service>}};

}  // namespace
