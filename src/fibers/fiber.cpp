// src/fibers/fiber.cpp -- what a handle of a fiber does: wait, interrupt, stop, join.

#include "fibers/fiber_record.hpp"
#include "fibers/scheduler_core.hpp"
#include <verge/fibers/fiber.hpp>
#include <verge/sync/cancellation.hpp>

#include <system_error>
#include <utility>

namespace verge::fibers::detail {

void fiber_ref::release() noexcept {
    record_->core->release(*record_);
}

fiber_id fiber_ref::id() const noexcept {
    return scheduler_core::id_of(*record_);
}

bool fiber_ref::done() const noexcept {
    return record_->life.done();
}

bool fiber_ref::wait_until(time_point deadline) const {
    if (record_ == nullptr) {
        throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                                "verge::fibers::fiber: no fiber to join");
    }
    waiter& self = current();
    if (&self == record_) {
        throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                                "verge::fibers::fiber: a fiber joins itself");
    }
    if (done()) return true;
    const wait_scope showing(self, wait_kind::join);
    return record_->life.wait(deadline);
}

void fiber_ref::rethrow() const {
    if (record_->run.error != nullptr)
        std::rethrow_exception(std::exchange(record_->run.error, {}));
}

void fiber_ref::hand_over_error() const noexcept {
    if (record_->run.error != nullptr) record_->core->report(std::exchange(record_->run.error, {}));
}

void fiber_ref::interrupt() const noexcept {
    record_->request(waiter::interrupt_request);
}

void fiber_ref::request_stop() const noexcept {
    // The token first: a fiber that is woken by the request finds it set.
    if (fiber_extras* const extras = record_->extras()) extras->stop.request_stop();
    record_->request(waiter::stop_request);
}

std::stop_token fiber_ref::stop_token() const noexcept {
    const fiber_extras* const extras = record_ != nullptr ? record_->extras() : nullptr;
    return extras != nullptr ? extras->stop.get_token() : std::stop_token{};
}

void fiber_ref::stop_and_join() const noexcept {
    request_stop();
    const no_unwind here;  // it is called by destructors
    try {
        static_cast<void>(wait_until(never));
    } catch (...) {
        std::terminate();  // a fiber destroys its own handle
    }
    hand_over_error();
}

void fiber_ref::detach() noexcept {
    if (record_ != nullptr && record_->life.detach()) hand_over_error();
}

void fiber_record::destroy_locals() noexcept {
    // Destructors may create new values.
    std::vector<fiber_extras::local>& locals = extras()->locals;
    while (!locals.empty()) {
        const fiber_extras::local last = locals.back();
        locals.pop_back();
        destroy_local(last.key, last.value);
    }
}

}  // namespace verge::fibers::detail
