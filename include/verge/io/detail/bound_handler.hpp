// verge/io/detail/bound_handler.hpp -- a handler with its arguments, and a way to its own executor.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/detail/operation.hpp>
#include <verge/io/execution.hpp>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace verge::detail::io {

/// A handler with the arguments of its call.
template <class Handler, class... Values>
class bound_handler {
public:
    using wrapped_type = Handler;
    template <class H, class... Vs>
    explicit bound_handler(H&& handler, Vs&&... values)
        : handler_(std::forward<H>(handler)), values_(std::forward<Vs>(values)...) {}
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler_; }

    void operator()() {
        std::apply([this](Values&... values) { std::move(handler_)(std::move(values)...); },
                   values_);
    }

private:
    Handler handler_;
    [[no_unique_address]] std::tuple<Values...> values_;
};

/// A handler that is called through its associated executor, which has outstanding work until then.
template <class Handler, class Default>
class on_own_executor {
    using executor = associated_executor_t<Handler, Default>;
    using tracked = std::decay_t<decltype(verge::prefer(std::declval<const executor&>(),
                                                        execution::outstanding_work.tracked))>;

public:
    using wrapped_type = Handler;
    static constexpr bool hands_over_operations = takes_operations<tracked>;

    template <class H>
    on_own_executor(H&& handler, const Default& otherwise)
        : handler_(std::forward<H>(handler)),
          work_(verge::prefer(verge::get_associated_executor(handler_, otherwise),
                              execution::outstanding_work.tracked)) {}
    [[nodiscard]] const Handler& wrapped() const noexcept { return handler_; }

    template <class... Args>
    void operator()(Args&&... args) {
        // The work ends after execute(), which has the handler then.
        const tracked ex(std::move(*work_));
        work_.reset();
        auto allocator = verge::get_associated_allocator(handler_);
        verge::prefer(verge::prefer(ex, execution::blocking.possibly),
                      execution::allocator(allocator))
            .execute(bound_handler<Handler, std::decay_t<Args>...>(std::move(handler_),
                                                                   std::forward<Args>(args)...));
    }

    /// For the operation that contains this: moves that operation to the handler's executor, where
    /// call_at_home() calls the handler.
    [[nodiscard]] handed hand_over(operation* op) const requires hands_over_operations {
        return work_->hand_over(op);
    }
    void call_at_home() { std::move(handler_)(); }

private:
    Handler handler_;
    std::optional<tracked> work_;
};

}  // namespace verge::detail::io
