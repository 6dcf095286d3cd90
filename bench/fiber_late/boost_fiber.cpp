// bench/fiber_late/boost_fiber.cpp -- `fiber-late` on Boost.Fiber.

#include "fiber_late/fiber_late.hpp"
#include "fibers/boost_fibers.hpp"

namespace {

const bench::add_peer registered{{.work = "fiber-late",
                                  .name = "boost-fiber",
                                  .run = bench::run_fiber_late<bench::boost_fibers>}};

}  // namespace
