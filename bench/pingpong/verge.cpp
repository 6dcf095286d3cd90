// bench/pingpong/verge.cpp -- `pingpong` on Verge's scheduler.

#include "fibers/verge_fibers.hpp"
#include "pingpong/pingpong.hpp"
#include <verge/sync/condition_variable.hpp>
#include <verge/sync/mutex.hpp>

namespace {

const bench::add_peer registered{
    {.work = "pingpong",
     .name = "verge",
     .run = bench::run_pingpong<bench::verge_fibers, verge::mutex, verge::condition_variable>}};

}  // namespace
