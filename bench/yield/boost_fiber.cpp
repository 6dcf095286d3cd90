// bench/yield/boost_fiber.cpp -- `yield` on Boost.Fiber.

#include "fibers/boost_fibers.hpp"
#include "support/own_process.hpp"
#include "yield/yield.hpp"

namespace {

bench::outcome run_apart(const bench::job& asked) {
    return bench::in_own_process([&] { return bench::run_yield<bench::boost_fibers>(asked); });
}

const bench::add_peer registered{{.work = "yield", .name = "boost-fiber", .run = run_apart}};

}  // namespace
