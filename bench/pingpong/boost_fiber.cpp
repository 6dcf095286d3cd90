// bench/pingpong/boost_fiber.cpp -- `pingpong` on Boost.Fiber.

#include "fibers/boost_fibers.hpp"
#include "pingpong/pingpong.hpp"
#include "support/own_process.hpp"

namespace {

bench::outcome run_apart(const bench::job& asked) {
    return bench::in_own_process([&] {
        return bench::run_pingpong<bench::boost_fibers, boost::fibers::mutex,
                                   boost::fibers::condition_variable>(asked);
    });
}

const bench::add_peer registered{{.work = "pingpong", .name = "boost-fiber", .run = run_apart}};

}  // namespace
