// verge/io/executor_work_guard.hpp -- keeps run() from returning when there is no other work.
//
//     auto guard = verge::make_work_guard(io);
//     std::thread loop([&] { io.run(); });
//     ...
//     guard.reset();                       // now run() returns when the rest is done
//
// For a loop that is started before its work arrives.  Pending operations need no guard: they count
// as work themselves.  To end a loop at once, with work left, use io_context::stop().
//
// Guarantees, under the names of the tests that hold them (tests/unit/io)
//   KeepsRunFromReturning                 executor_test.cpp
//   AGuardsResetMayReturnAfterTheEnd      last_call_test.cpp: when run() has returned, the context
//                                         may be destroyed although reset() has not returned yet.
//
// Thread safety: as an int; different guards of one context may be used by different threads.
// Exceptions: none.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/execution.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace verge {

/// Counts as work of an executor's context from construction until reset() or destruction.  Each
/// copy counts by itself.  An executor that does not support outstanding_work.tracked is held
/// without effect.
template <class Executor>
class executor_work_guard {
    using tracked = std::decay_t<decltype(verge::prefer(std::declval<const Executor&>(),
                                                        execution::outstanding_work.tracked))>;

public:
    using executor_type = Executor;

    /// Starts to count.
    explicit executor_work_guard(const Executor& ex) noexcept
        : executor_(ex), work_(verge::prefer(ex, execution::outstanding_work.tracked)) {}
    executor_work_guard(const executor_work_guard&) noexcept = default;
    /// Takes over; `other` owns no work then.
    executor_work_guard(executor_work_guard&& other) noexcept
        : executor_(other.executor_), work_(std::move(other.work_)) {
        other.work_.reset();
    }
    executor_work_guard& operator=(const executor_work_guard&) = delete;
    executor_work_guard& operator=(executor_work_guard&&) = delete;
    ~executor_work_guard() = default;

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    /// False after reset() and after a move from it.
    [[nodiscard]] bool owns_work() const noexcept { return work_.has_value(); }
    /// Stops counting.  If that was the last work, run() returns.  Calling it again has no effect.
    void reset() noexcept { work_.reset(); }

private:
    Executor executor_;
    std::optional<tracked> work_;
};

/// A guard for an executor, for a context, or for an object with an executor such as a timer.
template <class Executor>
requires execution::executor<Executor>
[[nodiscard]] auto make_work_guard(const Executor& ex) {
    return executor_work_guard<Executor>(ex);
}
template <class T>
requires(!execution::executor<T> && requires(T & t) { t.get_executor(); })
    [[nodiscard]] auto make_work_guard(T& owner) {
    return executor_work_guard<typename T::executor_type>(owner.get_executor());
}

}  // namespace verge
