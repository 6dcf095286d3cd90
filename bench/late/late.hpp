// bench/late/late.hpp -- the one script of `late` that every service plays.
//
// 1000 timers a second are scheduled up front on a running service, at random points of their
// milliseconds; each writes down when it fires.  With load 1 a busy thread runs beside it.  The
// checksum verifies that each fired exactly once.

#pragma once

#include "framework/workload.hpp"
#include "late/lateness.hpp"
#include "services/service.hpp"
#include "support/clock.hpp"

#include <memory>

namespace bench {

template <class Service, class... Options>
[[nodiscard]] outcome run_late_with(const job& asked, const Options&... options) {
    using slot = typename Service::template slot<lateness::note>;

    const busy_thread load(asked.params.integer("load") != 0);
    lateness noted(asked.seconds);  // outlives the service, whose callbacks write into it
    Service service(options...);
    const auto slots = std::make_unique<slot[]>(noted.size());
    const stop_before_slots stop(service);
    run_where_it_may_schedule(service, [&] {
        noted.begin();
        for (std::size_t i = 0; i < noted.size(); ++i) {
            service.prepare(slots[i], noted.on_fire(i));
            service.schedule_at(slots[i], noted.deadline(i));
        }
    });
    noted.wait_for_all();
    return noted.result();
}

template <class Service>
[[nodiscard]] outcome run_late(const job& asked) {
    return run_late_with<Service>(asked);
}

}  // namespace bench
