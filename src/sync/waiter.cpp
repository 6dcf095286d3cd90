// src/sync/waiter.cpp -- how a thread waits, and which waiter runs on the calling thread.

#include <verge/sync/detail/waiter.hpp>

#include <utility>

namespace verge::detail::sync {

namespace {

constinit thread_local thread_waiter own_waiter;
constinit thread_local carrier* own_carrier = nullptr;
using hook_type = void (*)() noexcept;
constinit thread_local hook_type own_hook = nullptr;

}  // namespace

wake_reason block_thread(waiter& self, parker& by, waiter::epoch of, time_point deadline) noexcept {
    self.before_block();
    if (!self.commit(of)) return self.finish();
    // A claim by another thread that found this one parked is followed by one unpark(), which must
    // be awaited: it is the claimer's last access to this waiter.
    if (!by.park(deadline) && self.claim(of, wake_reason::timed_out) == claim_result::lost) {
        static_cast<void>(by.park(never));
    }
    return self.finish();
}

constinit const waiter_operations thread_waiter::operations{
    .suspend =
        [](waiter& self, waiter::epoch of, time_point deadline) {
            return block_thread(self, static_cast<thread_waiter&>(self).parker_, of, deadline);
        },
    .make_ready = [](waiter& self) noexcept { static_cast<thread_waiter&>(self).parker_.unpark(); },
    .before_block =
        [](waiter&) noexcept {
            if (own_hook != nullptr) std::exchange(own_hook, nullptr)();
        },
};

[[gnu::noinline]] carrier* carrier::here() noexcept {
    carrier* c = own_carrier;
    asm volatile("" : "+r"(c));  // opaque to link-time optimisation, too
    return c;
}

void carrier::install(carrier* c) noexcept {
    own_carrier = c;
}

void carrier::call_before_block(void (*hook)() noexcept) noexcept {
    own_hook = hook;
}

[[gnu::noinline]] waiter& current() noexcept {
    const carrier* const c = own_carrier;
    waiter* w = c != nullptr && c->current_ != nullptr ? c->current_ : &own_waiter;
    asm volatile("" : "+r"(w));  // as in here()
    return *w;
}

}  // namespace verge::detail::sync
