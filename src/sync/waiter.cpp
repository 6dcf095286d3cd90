// src/sync/waiter.cpp -- how a thread waits, how a wait unwinds, and which waiter runs on the
// calling thread.

#include <verge/sync/cancellation.hpp>
#include <verge/sync/detail/waiter.hpp>
#include <verge/sync/wait.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace verge::detail::sync {

namespace {

constinit thread_local thread_waiter own_waiter;
constinit thread_local carrier* own_carrier = nullptr;
using hook_type = void (*)() noexcept;
constinit thread_local hook_type own_hook = nullptr;

constinit std::atomic<std::uint64_t> swallowed{0};  // written by whoever throws once more

}  // namespace

void waiter::unwind() {
    if (context_.no_unwind != 0) return;
    const unwind_reason why = stop_in_force() ? unwind_reason::stopped : unwind_reason::deadline;
    constexpr std::uint16_t patience = 100;
    if (unwinds_ < std::numeric_limits<std::uint16_t>::max()) ++unwinds_;
    if (unwinds_ > 1) {
        swallowed.fetch_add(1, std::memory_order_relaxed);  // relaxed: a number
        VERGE_ASSERT(unwinds_ < patience, "verge: a loop catches forced_unwind and waits again");
    }
    if (unwinds_ >= patience) {
        // A loop that cannot be ended must not take the whole processor.
        std::atomic<std::uint32_t> nobody{0};
        static_cast<void>(wait_uninterrupted(
            nobody, 0, deadline_after(steady_source{}.now(), std::chrono::milliseconds(10))));
    }
    throw forced_unwind(why);
}

deadline_scope::deadline_scope(time_point deadline, kind how) noexcept
    : self_(current()),
      before_(self_.in_force()),
      is_earliest_(how == kind::shields || deadline < before_.deadline) {
    waiter::context now = before_;
    if (is_earliest_) now.deadline = deadline;
    if (how == kind::shields) ++now.shields;
    now.uncaught = static_cast<std::uint8_t>(std::uncaught_exceptions());
    self_.put_in_force(now);
}

deadline_scope::~deadline_scope() {
    self_.put_in_force(before_);
}

bool deadline_scope::is_reason_of(const forced_unwind& why) noexcept {
    if (!is_earliest_ || why.reason() != unwind_reason::deadline) return false;
    self_.end_unwinding();
    return true;
}

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

namespace verge {

time_point current_deadline() noexcept {
    return detail::sync::current().in_force().deadline;
}

duration remaining() noexcept {
    const time_point deadline = current_deadline();
    if (deadline == never) return duration::max();
    return std::max(deadline - steady_source{}.now(), duration::zero());
}

std::uint64_t swallowed_unwinds() noexcept {
    return detail::sync::swallowed.load(std::memory_order_relaxed);  // relaxed: a number
}

}  // namespace verge
