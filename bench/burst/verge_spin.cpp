// bench/burst/verge_spin.cpp -- `burst` on Verge's timer thread with a spin of 50 us.

#include "burst/burst.hpp"
#include "services/verge_service.hpp"

namespace {

bench::outcome run_spinning(const bench::job& asked) {
    return bench::run_burst_with<bench::verge_service>(asked, std::chrono::microseconds(50));
}

const bench::add_peer registered{{.work = "burst", .name = "verge-spin", .run = run_spinning}};

}  // namespace
