// bench/spawn/boost_fiber.cpp -- `spawn` on Boost.Fiber.

#include "fibers/boost_fibers.hpp"
#include "spawn/spawn.hpp"
#include "support/own_process.hpp"

namespace {

bench::outcome run_apart(const bench::job& asked) {
    return bench::in_own_process([&] { return bench::run_spawn<bench::boost_fibers>(asked); });
}

const bench::add_peer registered{{.work = "spawn", .name = "boost-fiber", .run = run_apart}};

}  // namespace
