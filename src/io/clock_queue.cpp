// The alarm of a clock's queue: when it is set, and what happens when it rings.

#include <verge/base/detail/optional_lock.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/io/detail/clock_queue.hpp>
#include <verge/io/detail/loop_timers.hpp>

#include <algorithm>
#include <utility>

namespace verge::detail::io {

namespace {

// Where the kernel refuses to tell of a new date, the clock is read this often.
constexpr duration look_again = std::chrono::seconds(1);

alarm_clock clock_of(bool realtime) noexcept {
    return realtime ? alarm_clock::realtime : alarm_clock::boottime;
}

}  // namespace

struct clock_queue_lock::impl : optional_lock<thread_mutex> {
    using optional_lock::optional_lock;
};

clock_queue_lock::clock_queue_lock(bool used) : impl_(std::make_unique<impl>(used)) {}
clock_queue_lock::~clock_queue_lock() = default;

void clock_queue_lock::lock() noexcept VERGE_NO_THREAD_SAFETY_ANALYSIS {
    impl_->lock();
}
void clock_queue_lock::unlock() noexcept VERGE_NO_THREAD_SAFETY_ANALYSIS {
    impl_->unlock();
}

clock_queue_base::clock_queue_base(execution_context& context, kind which)
    : service(context),
      reactor_timer(&alarm_rang),
      loop_(loop_timers::of(use_service<loop_core>(context)).loop()),
      lock_(loop_.has_locks()),
      reactor_(loop_.use_reactor()),
      which_(which) {}

clock_queue_base::~clock_queue_base() {
    const lock_scope hold(lock_);
    close_watch();
}

void clock_queue_base::close_watch() noexcept {
    if (std::exchange(watching_, false)) {
        reactor_.watch(clock_of(which_ == kind::realtime), nullptr);
    }
}

void clock_queue_base::shutdown() {
    op_queue doomed;  // destroyed without the lock: user code
    const lock_scope hold(lock_);
    close_watch();
    closed_ = true;
    reactor_.timers().cancel(alarm_);
    take_all(doomed);
}

void clock_queue_base::set_alarm() {
    const std::optional<next_look> soon = next();
    if (!soon) return;
    duration wait = soon->wait;
    if (which_ != kind::user) {
        // Not before there is a timer: of two queues that are made at the same time one is
        // discarded.
        if (!std::exchange(watching_, true)) {
            reactor_.watch(clock_of(which_ == kind::realtime), this);
        }
        if (reactor_.set_alarm(clock_of(which_ == kind::realtime), soon->expiry)) return;
        wait = std::min(wait, look_again);
    }
    const time_point when = deadline_after(steady_source{}.now(), wait);
    const time_point at = std::min(when, last_time);
    if (alarm_ && reactor_.timers().rearm(alarm_, at) == reschedule_result::pending) return;
    alarm_ = reactor_.timers().emplace(at, static_cast<reactor_timer&>(*this));
}

void clock_queue_base::look(void* sink, timer_id rang) noexcept {
    const lock_scope hold(lock_);
    if (rang == alarm_) alarm_ = {};
    if (closed_) return;
    auto& to = *static_cast<ready_sink*>(sink);
    take_due(to);
    try {
        set_alarm();
    } catch (...) {  // no memory for the alarm: then they end
        abort_armed(to);
    }
}

void clock_queue_base::clock_moved(void* sink) noexcept {
    look(sink, {});
}

void clock_queue_base::alarm_rang(reactor_timer& self, timer_id id, void* sink) {
    static_cast<clock_queue_base&>(self).look(sink, id);
}

}  // namespace verge::detail::io
