// bench/pingpong/verge.cpp -- `pingpong` on Verge's scheduler.

#include "fibers/verge_fibers.hpp"
#include "pingpong/pingpong.hpp"
#include <verge/fiber/condition_variable.hpp>
#include <verge/fiber/mutex.hpp>

namespace {

const bench::add_peer registered{
    {.work = "pingpong",
     .name = "verge",
     .run = bench::run_pingpong<bench::verge_fibers, verge::fibers::mutex,
                                verge::fibers::condition_variable>}};

}  // namespace
