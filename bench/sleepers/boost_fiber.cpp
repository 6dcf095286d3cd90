// bench/sleepers/boost_fiber.cpp -- `sleepers` on Boost.Fiber, without guards: its pool has none.

#include "fibers/boost_fibers.hpp"
#include "sleepers/sleepers.hpp"
#include "support/process.hpp"

namespace {

// The pool touches the bottom of each stack, the fiber its top.  It is malloc's memory: with huge
// pages for all, each stack is resident as a whole.
bool takes(const bench::parameters& params) {
    const std::uint64_t each = bench::huge_pages_for_all() ? 80'000 : 12'000;
    return params.integer("n") * each <= bench::available_bytes();
}

const bench::add_peer registered{{.work = "sleepers",
                                  .name = "boost-fiber",
                                  .run = bench::run_sleepers<bench::boost_fibers>,
                                  .takes = takes}};

}  // namespace
