// bench/shards/verge.cpp -- `shards` on Verge's timer thread.

#include "rpc/rpc.hpp"
#include "services/verge_service.hpp"

namespace {

using namespace std::chrono_literals;

// How long the timer thread is awake for one timer, when each fires alone: it checks all shards.
double fire_ns(verge::timer_thread& timers) {
    constexpr int count = 200;
    const auto before = timers.stats();
    std::promise<void> last;
    for (int i = 1; i < count; ++i)
        timers.schedule_after(i * 100us, [] {});
    timers.schedule_after(count * 100us, [&last] { last.set_value(); });
    last.get_future().wait();
    const auto after = timers.stats();
    return static_cast<double>(after.busy_ns - before.busy_ns) / count;
}

bench::outcome run_verge(const bench::job& asked) {
    bench::timer_account account;
    bench::verge_service service(verge::timer_thread::options{
        .shards = static_cast<std::size_t>(asked.params.integer("shards"))});
    bench::outcome result = bench::run_rpc_on(service, account, asked);
    result.figures["fire_ns"] = fire_ns(service.timers());
    return result;
}

const bench::add_peer registered{{.work = "shards", .name = "verge", .run = run_verge}};

}  // namespace
