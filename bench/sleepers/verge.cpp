// bench/sleepers/verge.cpp -- `sleepers` on Verge's scheduler, with guards.

#include "fibers/verge_fibers.hpp"
#include "sleepers/sleepers.hpp"
#include "support/process.hpp"

namespace {

// Before Linux 6.13 a guard takes two mappings, of which a process has 65,530 unless configured
// otherwise.
bool takes(const bench::parameters& params) {
    constexpr std::uint64_t mprotect_guards = 1;
    const std::uint64_t n = params.integer("n");
    if (n * 8192 > bench::available_bytes()) return false;
    return n <= 30'000 || verge::fibers::scheduler().stats().guard != mprotect_guards;
}

const bench::add_peer registered{{.work = "sleepers",
                                  .name = "verge",
                                  .run = bench::run_sleepers<bench::verge_fibers>,
                                  .takes = takes}};

}  // namespace
