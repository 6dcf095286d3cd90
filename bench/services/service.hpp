// bench/services/service.hpp -- what the workloads of running services ask of a peer.
//
// A service has a thread of its own (or a loop running in one) that fires timers.  A slot<F> is
// what a user of that peer keeps for one timer: an id, or a timer object that is used again and
// again if that is the fastest way by the peer's documentation.
//
//     service.prepare(slot, f);            once; f() is what the timer does
//     service.schedule_after(slot, ns);    from any thread, if the slot's timer is not pending
//     service.schedule_at(slot, when);     the same; CLOCK_MONOTONIC nanoseconds
//     service.cancel(slot);                true: f will not run; false: it ran, or runs
//     service.thread_id();                 the kernel's id of the thread that fires
//
// Peers that are not thread-safe have schedule_at only inside `service.run_inside(f)`, which calls
// f in the loop's thread and waits for it.

#pragma once

#include <cstdint>
#include <utility>

namespace bench {

/// Runs `f` where this peer wants timers to be scheduled from.
template <class Service, class F>
void run_where_it_may_schedule(Service& service, F&& f) {
    if constexpr (requires { service.run_inside(f); }) {
        service.run_inside(f);
    } else {
        f();
    }
}

/// Declared after the slots: a peer that knows their addresses is stopped before they are
/// destroyed.
template <class Service>
class stop_before_slots {
public:
    explicit stop_before_slots(Service& service) : service_(service) {}
    stop_before_slots(const stop_before_slots&) = delete;
    stop_before_slots& operator=(const stop_before_slots&) = delete;
    ~stop_before_slots() {
        if constexpr (requires { service_.stop(); }) service_.stop();
    }

private:
    Service& service_;
};

}  // namespace bench
