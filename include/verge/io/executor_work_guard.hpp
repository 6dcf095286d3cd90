// verge/io/executor_work_guard.hpp -- keeps run() from returning for want of work.
//
//     auto guard = verge::make_work_guard(io);
//     std::thread loop([&] { io.run(); });
//     ...
//     guard.reset();                       // now run() returns when the rest is done
//
// Thread safety: as an int.  Exceptions: none.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/execution.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace verge {

template <class Executor>
class executor_work_guard {
    using tracked = std::decay_t<decltype(verge::prefer(std::declval<const Executor&>(),
                                                        execution::outstanding_work.tracked))>;

public:
    using executor_type = Executor;

    explicit executor_work_guard(const Executor& ex) noexcept
        : executor_(ex), work_(verge::prefer(ex, execution::outstanding_work.tracked)) {}
    executor_work_guard(const executor_work_guard&) noexcept = default;
    executor_work_guard(executor_work_guard&& other) noexcept
        : executor_(other.executor_), work_(std::move(other.work_)) {
        other.work_.reset();
    }
    executor_work_guard& operator=(const executor_work_guard&) = delete;
    executor_work_guard& operator=(executor_work_guard&&) = delete;
    ~executor_work_guard() = default;

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    [[nodiscard]] bool owns_work() const noexcept { return work_.has_value(); }
    void reset() noexcept { work_.reset(); }

private:
    Executor executor_;
    std::optional<tracked> work_;
};

template <class Executor>
requires execution::executor<Executor>
[[nodiscard]] auto make_work_guard(const Executor& ex) {
    return executor_work_guard<Executor>(ex);
}
/// Of a context, or of an object with an executor, such as a timer.
template <class T>
requires(!execution::executor<T> && requires(T & t) { t.get_executor(); })
    [[nodiscard]] auto make_work_guard(T& owner) {
    return executor_work_guard<typename T::executor_type>(owner.get_executor());
}

}  // namespace verge
