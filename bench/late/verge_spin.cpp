// bench/late/verge_spin.cpp -- `late` on Verge's timer thread with a spin of 50 us.

#include "late/late.hpp"
#include "services/verge_service.hpp"

namespace {

bench::outcome run_spinning(const bench::job& asked) {
    return bench::run_late_with<bench::verge_service>(asked, std::chrono::microseconds(50));
}

const bench::add_peer registered{{.work = "late", .name = "verge-spin", .run = run_spinning}};

}  // namespace
