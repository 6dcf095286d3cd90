// verge/driver/detail/running_scope.hpp -- which timers' callbacks the calling thread is inside of.
//
// A thread must not wait for a callback that it is itself running.  Callbacks nest when an executor
// runs a callback inline, so the scopes form a chain, innermost first.

#pragma once

#include <verge/base/timer_id.hpp>

namespace verge::detail::driver {

/// Stands on the stack around the call of a timer's callback.
class running_scope {
public:
    running_scope(const void* service, timer_id id) noexcept;
    ~running_scope();
    running_scope(const running_scope&) = delete;
    running_scope& operator=(const running_scope&) = delete;

    /// Whether this thread is inside the callback of that timer.
    [[nodiscard]] static bool inside_timer(timer_id id) noexcept;

    /// Whether this thread is inside a callback of that service.
    [[nodiscard]] static bool inside_service(const void* service) noexcept;

    /// Calls f(timer_id) for each callback of that service that this thread is inside of.
    template <class F>
    static void for_each_inside(const void* service, F&& f) {
        for (const running_scope* scope = innermost(); scope != nullptr; scope = scope->outer_) {
            if (scope->service_ == service) f(scope->id_);
        }
    }

private:
    // Not inline: code that may move to another thread must not cache the address it reads.
    [[nodiscard]] static const running_scope* innermost() noexcept;

    const void* service_;
    timer_id id_;
    running_scope* outer_;
};

}  // namespace verge::detail::driver
