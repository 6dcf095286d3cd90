// src/fibers/scheduler.cpp -- the public scheduler: passes its calls on to scheduler_core.

#include "fibers/scheduler_core.hpp"
#include <verge/fibers/scheduler.hpp>

namespace verge::fibers {

scheduler::scheduler() : scheduler(options{}) {}

scheduler::scheduler(const options& opts) : core_(new detail::scheduler_core(*this, opts)) {}

scheduler::~scheduler() {
    core_->shut_down();
}

scheduler& scheduler::shared() {
    static scheduler& one = *new scheduler;
    return one;
}

scheduler* scheduler::current() noexcept {
    const detail::worker* const w = detail::worker::here();
    return w != nullptr ? w->core().front : nullptr;
}

detail::fiber_ref scheduler::start(detail::spawn_mode mode, callback&& fn,
                                   const spawn_options& opts, std::stop_source&& stop) {
    return detail::fiber_ref(core_->spawn(mode, std::move(fn), opts, std::move(stop), true));
}

void scheduler::flush() noexcept {
    core_->flush();
}

void scheduler::execute(callback fn) {
    core_->spawn(detail::spawn_mode::normal, std::move(fn), {.inherit_deadline = false},
                 std::stop_source(std::nostopstate), false);
}

bool scheduler::interrupt(fiber_id id) noexcept {
    const detail::fiber_ref ref = core_->pin(id);
    if (!ref || ref.done()) return false;
    ref.interrupt();
    return true;
}

std::vector<fiber_info> scheduler::stop(time_point deadline) {
    return core_->stop(deadline);
}

std::size_t scheduler::max_workers() const noexcept {
    return core_->workers.size();
}

void scheduler::report(std::exception_ptr error) noexcept {
    core_->report(std::move(error));
}

void scheduler::trim() noexcept {
    core_->trim();
}

std::vector<fiber_info> scheduler::living() const {
    return core_->living();
}

scheduler::statistics scheduler::stats() const {
    return core_->stats();
}

}  // namespace verge::fibers
