// verge/io/compose.hpp -- an operation made of others: async_compose and composed.
//
//     template <class Token>
//     auto async_wait_twice(verge::steady_timer& timer, Token&& token) {
//         return verge::async_compose<Token, void(std::error_code)>(
//             [&timer, turn = 0](auto& self, std::error_code error = {}) mutable {
//                 if (error || turn++ == 2) return self.complete(error);
//                 timer.async_wait(std::move(self));       // it is called again with the result
//             },
//             token, timer);
//     }
//
// An operation that may end before it has begun an inner one posts itself first:
//
//     [this, posted = false](auto& self) mutable {
//         if (!posted) {
//             posted = true;
//             return verge::post(std::move(self));    // never complete inside the initiation
//         }
//         self.complete(cached_result);
//     }
//
// `self` is the completion handler of each inner operation: it is moved into the operation, and has
// the executor, the allocator and the cancellation state of the user's handler.  The function is
// called once to begin, with `self` alone, and once when each inner operation completes, with its
// results.  It ends the composed operation by self.complete(results...), which must not be called
// before async_compose has returned: if no inner operation has been started, post `self` first.
//
// The executors of `objects` have outstanding work until then; the first one calls handlers that
// have no executor.  Terminal cancellation through a slot reaches the inner operation that is
// pending; self.reset_cancellation_state(filter) changes which kinds pass, and self.cancelled()
// returns those that were requested.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/compose_test.cpp)
//   RunsItsPartsInTurn      PartsHaveWhatBelongsToTheHandler      HasWorkUntilItIsComplete
//   ASlotEndsThePartThatIsPending      TheFilterMayBeChanged       TakesAnyToken
//   ComposedIsAnInitiation
//
// Thread safety: the first call of the function is on the thread that begins the operation, the
// others are on the handler's executor; never two at a time.
// Exceptions: those of the inner operations, and what the function throws: out of async_compose for
// the first call, out of run() for the others.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/async_result.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/execution.hpp>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// The executor of an object, or the executor that it is.
template <class T>
auto executor_of(const T& object) {
    if constexpr (execution::executor<T>) {
        return object;
    } else {
        return object.get_executor();
    }
}
template <class T>
auto executor_of(T& context) requires(!execution::executor<T> &&
                                      !requires(const T& t) { t.get_executor(); }) {
    return context.get_executor();
}

/// Executors with outstanding work; the first is the operation's own.
template <class... Executors>
class composed_work {
public:
    using first_type = std::tuple_element_t<0, std::tuple<Executors..., inline_executor>>;

    explicit composed_work(const std::tuple<Executors...>& all)
        : all_(all),
          work_(std::apply(
              [](const Executors&... ex) {
                  return tracked(verge::prefer(ex, execution::outstanding_work.tracked)...);
              },
              all)) {}
    [[nodiscard]] first_type first() const noexcept {
        if constexpr (sizeof...(Executors) == 0) {
            return {};
        } else {
            return std::get<0>(all_);
        }
    }
    void reset() noexcept { work_.reset(); }

private:
    using tracked = std::tuple<std::decay_t<decltype(verge::prefer(
        std::declval<const Executors&>(), execution::outstanding_work.tracked))>...>;
    [[no_unique_address]] std::tuple<Executors...> all_;
    std::optional<tracked> work_;  // until complete()
};

/// The cancellation state of an operation; empty for a handler that never has a slot.
template <class Handler>
class composed_cancellation {
public:
    explicit composed_cancellation(const Handler& handler)
        : state_(verge::get_associated_cancellation_slot(handler)) {}
    template <class... Filters>
    void reset(const Handler& handler, Filters&&... filters) {
        state_ = cancellation_state(verge::get_associated_cancellation_slot(handler),
                                    std::forward<Filters>(filters)...);
    }
    [[nodiscard]] cancellation_state state() const noexcept { return state_; }

private:
    cancellation_state state_;
};
template <class Handler>
requires(!may_have_slot<Handler>) class composed_cancellation<Handler> {
public:
    explicit composed_cancellation(const Handler&) noexcept {}
    template <class... Filters>
    void reset(const Handler&, Filters&&...) noexcept {}
    [[nodiscard]] cancellation_state state() const noexcept { return {}; }
};

/// The `self` of a composed operation: a move-only completion handler.  It owns the implementation,
/// the work and the user's handler.
template <class Implementation, class Work, class Handler, class... Signatures>
class composed_operation {
public:
    using io_executor_type = typename Work::first_type;
    using executor_type = associated_executor_t<Handler, io_executor_type>;
    using allocator_type = associated_allocator_t<Handler>;
    using cancellation_slot_type = cancellation_slot;

    template <class I, class H>
    composed_operation(I&& implementation, Work&& work, H&& handler)
        : implementation_(std::forward<I>(implementation)),
          work_(std::move(work)),
          handler_(std::forward<H>(handler)),
          cancellation_(handler_) {}
    composed_operation(composed_operation&&) = default;
    composed_operation& operator=(composed_operation&&) = delete;
    composed_operation(const composed_operation&) = delete;
    composed_operation& operator=(const composed_operation&) = delete;
    ~composed_operation() = default;

    /// The executor of the first object; get_executor() is the handler's, with this one as its
    /// default.
    [[nodiscard]] io_executor_type get_io_executor() const noexcept { return work_.first(); }
    /// What belongs to the user's handler: each inner operation is called on its executor, uses its
    /// allocator, and can be cancelled through its slot.
    [[nodiscard]] executor_type get_executor() const noexcept {
        return verge::get_associated_executor(handler_, work_.first());
    }
    [[nodiscard]] allocator_type get_allocator() const noexcept {
        return verge::get_associated_allocator(handler_);
    }
    [[nodiscard]] cancellation_slot get_cancellation_slot() const noexcept {
        return cancellation_.state().slot();
    }

    /// Calls the implementation: the composed operation begins, or an inner one has completed.
    template <class... Results>
    void operator()(Results&&... results) {
        get_cancellation_slot().clear();
        implementation_(*this, std::forward<Results>(results)...);
    }
    /// Ends the composed operation: releases the work, and calls the user's handler in place.
    /// `self` must not be used afterwards.
    template <class... Results>
    void complete(Results&&... results) {
        static_assert(sizeof...(Signatures) == 0 || (takes<Signatures, Results...>::value || ...),
                      "not the results that the operation is declared with");
        work_.reset();
        Handler own(std::move(handler_));
        std::move(own)(std::forward<Results>(results)...);
    }

    /// The state between the handler's slot and the inner operations.
    [[nodiscard]] cancellation_state get_cancellation_state() const noexcept {
        return cancellation_.state();
    }
    /// The kinds of cancellation that were requested and passed the filter.
    [[nodiscard]] cancellation_type cancelled() const noexcept {
        return cancellation_.state().cancelled();
    }
    /// Forgets all requests, and installs these filters (see cancellation_state): terminal, without
    /// one.
    template <class... Filters>
    void reset_cancellation_state(Filters&&... filters) {
        cancellation_.reset(handler_, std::forward<Filters>(filters)...);
    }

private:
    // Whether results convert to the parameters of a signature.
    template <class Signature, class... Results>
    struct takes : std::false_type {};
    template <class R, class... Declared, class... Results>
    requires(sizeof...(Declared) == sizeof...(Results)) struct takes<R(Declared...), Results...>
        : std::bool_constant<(std::is_convertible_v<Results, Declared> && ...)> {
    };

    Implementation implementation_;  // the user's function
    Work work_;
    Handler handler_;  // moved from by complete()
    [[no_unique_address]] composed_cancellation<Handler> cancellation_;
};

/// Begins a composed operation.
template <class Implementation, class Executors, class... Signatures>
struct initiate_composed;
template <class Implementation, class... Executors, class... Signatures>
struct initiate_composed<Implementation, std::tuple<Executors...>, Signatures...> {
    using work = composed_work<Executors...>;
    using executor_type = typename work::first_type;
    [[nodiscard]] executor_type get_executor() const noexcept {
        if constexpr (sizeof...(Executors) == 0) {
            return {};
        } else {
            return std::get<0>(executors);
        }
    }
    /// An rvalue gives up the implementation; an lvalue is copied, so it can begin again.
    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) && {
        begin(std::move(implementation), std::forward<Handler>(handler),
              std::forward<Args>(args)...);
    }
    template <class Handler, class... Args>
    void operator()(Handler&& handler, Args&&... args) const& {
        begin(implementation, std::forward<Handler>(handler), std::forward<Args>(args)...);
    }

    Implementation implementation;
    [[no_unique_address]] std::tuple<Executors...> executors;

private:
    template <class I, class Handler, class... Args>
    void begin(I&& by, Handler&& handler, Args&&... args) const {
        composed_operation<Implementation, work, std::decay_t<Handler>, Signatures...>(
            std::forward<I>(by), work(executors),
            std::forward<Handler>(handler))(std::forward<Args>(args)...);
    }
};

}  // namespace detail::io

/// The initiation that async_compose begins, to be passed to async_initiate: arguments that are
/// given there reach the first call of `implementation` after `self`.
template <class... Signatures, class Implementation, class... Objects>
[[nodiscard]] auto composed(Implementation&& implementation, Objects&&... objects) {
    auto executors = std::make_tuple(detail::io::executor_of(objects)...);
    return detail::io::initiate_composed<std::decay_t<Implementation>, decltype(executors),
                                         Signatures...>{
        std::forward<Implementation>(implementation), std::move(executors)};
}

/// Begins an operation that `implementation` makes of others.  `objects` are the timers, sockets or
/// contexts it works with, or their executors.
template <class Token, class Signature, class Implementation, class... Objects>
decltype(auto) async_compose(Implementation&& implementation, std::remove_reference_t<Token>& token,
                             Objects&&... objects) {
    return async_initiate<Token, Signature>(
        composed<Signature>(std::forward<Implementation>(implementation),
                            std::forward<Objects>(objects)...),
        token);
}

}  // namespace verge
