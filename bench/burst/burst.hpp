// bench/burst/burst.hpp -- the one script of `burst` that every service plays.
//
// n timers are scheduled on a running service, all due at one instant or spread over one
// millisecond; then we wait.  drain_ms is the time from the first deadline to the last callback:
// not from the first callback, because some peers take all timers out of their queue before they
// call any. ns_per_timer is that divided by n, last_late_ms how long after the last deadline the
// last callback ran.  The checksum is over which timers fired.

#pragma once

#include "burst/burst_clock.hpp"
#include "framework/workload.hpp"
#include "services/service.hpp"
#include "support/clock.hpp"
#include "support/random.hpp"

#include <memory>
#include <stdexcept>

namespace bench {

/// One attempt; false if the first timers were due before all were scheduled.
template <class Service, class... Options>
bool try_burst(burst_clock& burst, bool spread, const Options&... options) {
    using slot = typename Service::template slot<burst_clock::note>;

    Service service(options...);
    const auto slots = std::make_unique<slot[]>(burst.size());
    const stop_before_slots stop(service);
    random_sequence random;
    run_where_it_may_schedule(service, [&] {
        for (std::size_t i = 0; i < burst.size(); ++i) {
            const std::uint64_t within = spread ? scale_to(low_half(random()), 1'000'000) : 0;
            service.prepare(slots[i], burst.on_fire(i));
            service.schedule_at(slots[i], burst.due() + static_cast<std::int64_t>(within));
        }
    });
    if (now_ns() >= burst.due()) return false;
    burst.wait_for_all();
    return true;
}

template <class Service, class... Options>
[[nodiscard]] outcome run_burst_with(const job& asked, const Options&... options) {
    const std::size_t n = asked.params.integer("n");
    const bool spread = asked.params.word("spread") == "ms";
    // Time to schedule them all in; slow peers get more on the next try.
    std::int64_t lead = 20'000'000 + static_cast<std::int64_t>(n) * 1000;
    for (int tries = 0; tries < 6; ++tries, lead *= 2) {
        burst_clock burst(n, now_ns() + lead, spread);  // outlives the service
        if (try_burst<Service>(burst, spread, options...)) return burst.result();
    }
    throw std::runtime_error("scheduling takes longer than any lead we give it");
}

template <class Service>
[[nodiscard]] outcome run_burst(const job& asked) {
    return run_burst_with<Service>(asked);
}

}  // namespace bench
