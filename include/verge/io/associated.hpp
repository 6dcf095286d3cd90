// verge/io/associated.hpp -- the executor and the allocator that belong to a handler.
//
//     struct my_handler {
//         using executor_type = verge::io_context::executor_type;
//         executor_type get_executor() const noexcept;         // where it is called
//         using allocator_type = my_allocator;
//         allocator_type get_allocator() const noexcept;       // allocates its operations
//         void operator()(std::error_code);
//     };
//     verge::bind_executor(strand, handler)     gives any handler, or token, an executor
//     verge::bind_allocator(allocator, handler) an allocator
//
//     struct logging {                                         // has what the inner handler has
//         using wrapped_type = my_handler;
//         const my_handler& wrapped() const noexcept { return inner; }
//         void operator()(std::error_code error) { log(error); std::move(inner)(error); }
//         my_handler inner;
//     };
//
// An operation asks its handler for both: it calls the handler through the associated executor, and
// allocates its memory with the associated allocator.  A handler without an executor is called by
// the executor of the timer or socket; one without an allocator uses the library's per-thread
// cache.
//
// A handler that wraps another one declares `wrapped_type` and `wrapped()`, and then has the
// executor, the allocator and the slot of the wrapped one, except those that it declares itself.
// For a type that cannot be changed, specialise associated_executor or associated_allocator.
// Cancellation slots follow the same rules: verge/io/cancellation.hpp.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io)
//   BindersNestAndPassOn                  executor_test.cpp: binders pass on what they do not bind.
//   AReferenceToAHandlerHasWhatThatHas    token_test.cpp: std::ref(handler).
//   BoundTokensBindTheHandler             token_test.cpp: a token is bound as a handler is.
//
// Thread safety: as an int.
// Exceptions: none, except those of the copies and moves of what is bound.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/execution.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace verge {

/// Calls a function in execute() itself: the associated executor of a handler that has none, where
/// the operation names no other.  Asio uses system_executor there, which has threads; this has
/// none.
class inline_executor {
public:
    /// Calls `f` before it returns.  Throws what `f` throws.
    template <class F>
    void execute(F&& f) const {
        std::decay_t<F> own(std::forward<F>(f));
        own();
    }
    friend constexpr bool operator==(inline_executor, inline_executor) noexcept { return true; }
};

namespace detail::io {

/// Declares the handler that it wraps.
template <class T>
concept wraps_a_handler = requires(const T& t) {
    typename T::wrapped_type;
    t.wrapped();
};
/// Declares an executor.
template <class T>
concept has_own_executor = requires(const T& t) {
    typename T::executor_type;
    t.get_executor();
};
/// Declares an allocator.
template <class T>
concept has_own_allocator = requires(const T& t) {
    typename T::allocator_type;
    t.get_allocator();
};

}  // namespace detail::io

/// The executor of a T: its own, that of the handler it wraps, or else a given default.  `type` is
/// the executor's type, get(t) and get(t, otherwise) return it.  May be specialised for a user's
/// type.
template <class T, class Default = inline_executor>
struct associated_executor {
    using type = Default;
    static type get(const T&, const Default& otherwise = {}) noexcept { return otherwise; }
};
// It declares one.
template <class T, class Default>
requires detail::io::has_own_executor<T>
struct associated_executor<T, Default> {
    using type = typename T::executor_type;
    static type get(const T& t) noexcept { return t.get_executor(); }
    static type get(const T& t, const Default&) noexcept { return t.get_executor(); }
};
// It wraps a handler, and declares none: that of the inner one.
template <class T, class Default>
requires(detail::io::wraps_a_handler<T> &&
         !detail::io::has_own_executor<T>) struct associated_executor<T, Default> {
    using inner = associated_executor<typename T::wrapped_type, Default>;
    using type = typename inner::type;
    static type get(const T& t) noexcept { return inner::get(t.wrapped()); }
    static type get(const T& t, const Default& otherwise) noexcept {
        return inner::get(t.wrapped(), otherwise);
    }
};
// std::ref(handler): that of the handler.
template <class T, class Default>
struct associated_executor<std::reference_wrapper<T>, Default> {
    using inner = associated_executor<T, Default>;
    using type = typename inner::type;
    static type get(std::reference_wrapper<T> t) noexcept { return inner::get(t.get()); }
    static type get(std::reference_wrapper<T> t, const Default& otherwise) noexcept {
        return inner::get(t.get(), otherwise);
    }
};
/// The type of that executor.
template <class T, class Default = inline_executor>
using associated_executor_t = typename associated_executor<T, Default>::type;

/// The executor associated with `t`.  If it has none: an inline_executor; `otherwise`; or the
/// executor of the context `otherwise`.
template <class T>
[[nodiscard]] auto get_associated_executor(const T& t) noexcept {
    return associated_executor<T>::get(t);
}
/// The same, with `otherwise` as the default.
template <class T, class Executor>
requires execution::executor<Executor>
[[nodiscard]] auto get_associated_executor(const T& t, const Executor& otherwise) noexcept {
    return associated_executor<T, Executor>::get(t, otherwise);
}
/// The same, with the executor of a context as the default.
template <class T, class Context>
requires(!execution::executor<Context>)
    [[nodiscard]] auto get_associated_executor(const T& t, Context& otherwise) noexcept {
    return associated_executor<T, typename Context::executor_type>::get(t,
                                                                        otherwise.get_executor());
}

/// The allocator of a T, by the same rules.  The default, std::allocator<void>, stands for the
/// library's own memory: operations then come from a per-thread cache.
template <class T, class Default = std::allocator<void>>
struct associated_allocator {
    using type = Default;
    static type get(const T&, const Default& otherwise = {}) noexcept { return otherwise; }
};
// It declares one.
template <class T, class Default>
requires detail::io::has_own_allocator<T>
struct associated_allocator<T, Default> {
    using type = typename T::allocator_type;
    static type get(const T& t, const Default& = {}) noexcept { return t.get_allocator(); }
};
// It wraps a handler, and declares none: that of the inner one.
template <class T, class Default>
requires(detail::io::wraps_a_handler<T> &&
         !detail::io::has_own_allocator<T>) struct associated_allocator<T, Default> {
    using inner = associated_allocator<typename T::wrapped_type, Default>;
    using type = typename inner::type;
    static type get(const T& t, const Default& otherwise = {}) noexcept {
        return inner::get(t.wrapped(), otherwise);
    }
};
// std::ref(handler): that of the handler.
template <class T, class Default>
struct associated_allocator<std::reference_wrapper<T>, Default> {
    using inner = associated_allocator<T, Default>;
    using type = typename inner::type;
    static type get(std::reference_wrapper<T> t, const Default& otherwise = {}) noexcept {
        return inner::get(t.get(), otherwise);
    }
};
/// The type of that allocator.
template <class T, class Default = std::allocator<void>>
using associated_allocator_t = typename associated_allocator<T, Default>::type;

/// The allocator associated with `t`, or `otherwise`.
template <class T, class Default = std::allocator<void>>
[[nodiscard]] auto get_associated_allocator(const T& t, const Default& otherwise = {}) noexcept {
    return associated_allocator<T, Default>::get(t, otherwise);
}

namespace detail::io {

/// The common base of the binders: holds the handler or the token, and calls it.  The call moves
/// from it, as every completion handler is called once.
template <class T>
class binder {
public:
    using wrapped_type = T;
    using target_type = T;

    /// The handler or the token itself; get() is Asio's name.
    [[nodiscard]] const T& wrapped() const noexcept { return target_; }
    [[nodiscard]] T& wrapped() noexcept { return target_; }
    [[nodiscard]] const T& get() const noexcept { return target_; }
    [[nodiscard]] T& get() noexcept { return target_; }

    template <class... Args>
    decltype(auto) operator()(Args&&... args) {
        return std::invoke(std::move(target_), std::forward<Args>(args)...);
    }

protected:
    struct from {};
    template <class U>
    binder(from, U&& target) : target_(std::forward<U>(target)) {}

private:
    T target_;
};

}  // namespace detail::io

/// A handler, or a token, with an executor: what bind_executor() returns.
template <class T, class Executor>
class executor_binder : public detail::io::binder<T> {
public:
    using executor_type = Executor;

    /// Stores copies of both.
    template <class U>
    executor_binder(const Executor& ex, U&& target)
        : detail::io::binder<T>({}, std::forward<U>(target)), executor_(ex) {}

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

private:
    Executor executor_;
};

/// A handler, or a token, with an allocator: what bind_allocator() returns.
template <class T, class Allocator>
class allocator_binder : public detail::io::binder<T> {
public:
    using allocator_type = Allocator;

    /// Stores copies of both.
    template <class U>
    allocator_binder(const Allocator& a, U&& target)
        : detail::io::binder<T>({}, std::forward<U>(target)), allocator_(a) {}

    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_; }

private:
    [[no_unique_address]] Allocator allocator_;
};

/// Binds `target`, a handler or a token, to `ex`, or to the executor of a context: the operation
/// calls the handler there.  The executor counts as work while the operation is pending.
template <class Executor, class T>
requires execution::executor<Executor>
[[nodiscard]] auto bind_executor(const Executor& ex, T&& target) {
    return executor_binder<std::decay_t<T>, Executor>(ex, std::forward<T>(target));
}
/// The same, to the executor of a context.
template <class Context, class T>
requires(!execution::executor<Context>)
    [[nodiscard]] auto bind_executor(Context& context, T&& target) {
    return verge::bind_executor(context.get_executor(), std::forward<T>(target));
}
/// Binds `target` to a copy of `allocator`: the operation's memory comes from it, and is given back
/// before the handler is called.
template <class Allocator, class T>
[[nodiscard]] auto bind_allocator(const Allocator& allocator, T&& target) {
    return allocator_binder<std::decay_t<T>, Allocator>(allocator, std::forward<T>(target));
}

// A bound token: the inner token makes the handler, and the handler is bound.
template <class T, class Executor, class... Signatures>
struct async_result<executor_binder<T, Executor>, Signatures...> {
    template <class Initiation, class Token, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Token&& token, Args&&... args) {
        return detail::io::initiate_wrapped<T, Signatures...>(
            std::forward<Initiation>(initiation), detail::io::forward_inner<Token>(token.wrapped()),
            [ex = token.get_executor()]<class Handler>(Handler&& handler) {
                return executor_binder<std::decay_t<Handler>, Executor>(
                    ex, std::forward<Handler>(handler));
            },
            std::forward<Args>(args)...);
    }
};
// The same for an allocator.
template <class T, class Allocator, class... Signatures>
struct async_result<allocator_binder<T, Allocator>, Signatures...> {
    template <class Initiation, class Token, class... Args>
    static decltype(auto) initiate(Initiation&& initiation, Token&& token, Args&&... args) {
        return detail::io::initiate_wrapped<T, Signatures...>(
            std::forward<Initiation>(initiation), detail::io::forward_inner<Token>(token.wrapped()),
            [a = token.get_allocator()]<class Handler>(Handler&& handler) {
                return allocator_binder<std::decay_t<Handler>, Allocator>(
                    a, std::forward<Handler>(handler));
            },
            std::forward<Args>(args)...);
    }
};

}  // namespace verge
