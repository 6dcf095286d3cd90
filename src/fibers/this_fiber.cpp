// src/fibers/this_fiber.cpp -- sleep, yield, exit and fiber-local variables.

#include "fibers/fiber_record.hpp"
#include "fibers/scheduler_core.hpp"
#include "fibers/worker.hpp"
#include <verge/base/detail/os_thread.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/fibers/this_fiber.hpp>

#include <mutex>
#include <stdexcept>
#include <vector>

#include <sched.h>

namespace verge::fibers::detail {

[[noreturn]] void throw_fiber_exit();

namespace {

fiber_record* current_fiber() noexcept {
    const worker* const w = worker::here();
    return w != nullptr ? w->current() : nullptr;
}

constinit verge::detail::thread_mutex keys_lock;

// Under keys_lock; nullptr: free.  Never destroyed: fibers, and fiber_locals that are global
// variables, may exist when the program exits.
std::vector<local_destructor>& keys() {
    static auto& all = *new std::vector<local_destructor>;
    return all;
}

}  // namespace

std::size_t new_local_key(local_destructor destroy) {
    const std::lock_guard hold(keys_lock);
    for (std::size_t i = 0; i < keys().size(); ++i) {
        if (keys()[i] == nullptr) {
            keys()[i] = destroy;
            return i;
        }
    }
    keys().push_back(destroy);
    return keys().size() - 1;
}

void delete_local_key(std::size_t key) noexcept {
    const std::lock_guard hold(keys_lock);
    keys()[key] = nullptr;
}

void destroy_local(std::size_t key, void* value) noexcept {
    local_destructor destroy = nullptr;
    {
        const std::lock_guard hold(keys_lock);
        destroy = keys()[key];
    }
    if (destroy != nullptr) destroy(value);
}

void* find_local(std::size_t key) {
    const fiber_record* const self = current_fiber();
    if (self == nullptr) throw std::logic_error("verge::fibers::fiber_local: not in a fiber");
    const fiber_extras* const extras = self->extras();
    if (extras == nullptr) return nullptr;
    for (const fiber_extras::local& each : extras->locals) {
        if (each.key == key) return each.value;
    }
    return nullptr;
}

void add_local(std::size_t key, void* value) {
    current_fiber()->make_extras().locals.push_back({key, value});
}

}  // namespace verge::fibers::detail

namespace verge::this_fiber {

namespace detail = fibers::detail;
using fibers::fiber_id;
using fibers::sleep_result;
using verge::wait_kind;
using verge::detail::sync::waiter;

fiber_id id() noexcept {
    const detail::fiber_record* const self = detail::current_fiber();
    return self != nullptr ? detail::scheduler_core::id_of(*self) : fiber_id{};
}

void yield() noexcept {
    if (!detail::worker::yield()) verge::detail::os::sched_yield();
}

namespace {

// Busy-waits for the rest of a sleep whose timer was set early by the learned wake-up latency.
// False if a request ended it.
bool wait_awake(const waiter& self, time_point asked, const waiter::wait_limit& limit) noexcept {
    time_point now = steady_source{}.now();
    detail::worker::slept(now - asked);
    while (now < limit.until) {
        if (limit.interruptible && self.requests() != 0) return false;
        yield();
        // Half a microsecond between two picks: workers use the number of picks as a measure of
        // time when they check whether another worker is stalled.
        for (int i = 0; i < 8; ++i)
            verge::detail::spin_platform::pause();
        now = steady_source{}.now();
    }
    return true;
}

// Whether the time came; false: a request ended it.
bool sleep_once(waiter& self, const waiter::wait_limit& limit) {
    const waiter::epoch of = self.begin_wait(limit.interruptible);
    if (limit.interruptible && self.requests() != 0) return false;
    const time_point begin = steady_source{}.now();
    if (limit.until <= begin) {
        yield();
        return true;
    }
    const verge::detail::sync::wait_scope showing(self, wait_kind::sleep);
    const time_point asked = limit.until == never
                                 ? never
                                 : limit.until - detail::worker::lead_of_sleep(limit.until - begin);
    return self.suspend(of, asked) == verge::detail::sync::wake_reason::timed_out &&
           wait_awake(self, asked, limit);
}

}  // namespace

sleep_result sleep_until(time_point deadline) {
    waiter& self = verge::detail::sync::current();
    for (;;) {
        const waiter::wait_limit limit = self.limit_of_wait(deadline);
        const bool elapsed = sleep_once(self, limit);
        if (elapsed && !limit.by_context) return sleep_result::elapsed;
        if (elapsed || self.stop_in_force()) {
            self.unwind();
            return sleep_result::stopped;
        }
        if ((self.requests() & waiter::interrupt_request) != 0) {
            self.consume_interrupt();
            return sleep_result::interrupted;
        }
        // A stop that is not in force does not end it: again, not to be interrupted.
    }
}

sleep_result sleep_for(duration d) {
    return sleep_until(deadline_after(steady_source{}.now(), d));
}

void exit() {
    if (detail::current_fiber() == nullptr) {
        throw std::logic_error("verge::this_fiber::exit: not in a fiber");
    }
    detail::throw_fiber_exit();
}

bool stop_requested() noexcept {
    return (verge::detail::sync::current().requests() & waiter::stop_request) != 0;
}

void set_name(std::string_view name) {
    detail::fiber_record* const self = detail::current_fiber();
    if (self == nullptr) return;
    self->make_extras().set_name(std::string(name));
}

std::string name() {
    const detail::fiber_record* const self = detail::current_fiber();
    const detail::fiber_extras* const extras = self != nullptr ? self->extras() : nullptr;
    return extras != nullptr ? extras->name() : std::string();
}

}  // namespace verge::this_fiber
