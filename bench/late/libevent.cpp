// bench/late/libevent.cpp -- `late` on libevent, with the precise timers it offers for that.

#include "late/late.hpp"
#include "services/libevent_service.hpp"

namespace {

bench::outcome run_precise(const bench::job& asked) {
    return bench::run_late_with<bench::libevent_service>(asked, bench::libevent_precision::timerfd);
}

const bench::add_peer registered{{.work = "late", .name = "libevent", .run = run_precise}};

}  // namespace
