// verge/io/default_completion_token.hpp -- the token of an operation that is given none.
//
//     using timer = verge::use_future_t<>::as_default_on_t<verge::steady_timer>;
//     timer(io, 1s).async_wait().get();
//     auto quiet = verge::detached.as_default_on(verge::steady_timer(io, 1s));
//     quiet.async_wait();
//
// It belongs to the executor of the object: deferred, if that does not say otherwise by a type
// `default_completion_token_type`.  as_default_on_t<Object> is the object with such an executor,
// and as_default_on(object) makes one of an object, whose pending operations go along.  deferred_t,
// detached_t, use_future_t and as_tuple_t have both.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/default_token_test.cpp)
//   IsThatOfTheExecutor      AsDefaultOnTakesWaitsAlong      AnAdapterAloneAdaptsIt
//   CostsNothing             the loop calls the handler itself, as it does without.
//
// Thread safety and exceptions: those of the executor.

#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace verge {

struct deferred_t;

namespace detail::io {

template <class T>
struct default_token_of {
    using type = deferred_t;
};
template <class T>
requires requires {
    typename T::default_completion_token_type;
}
struct default_token_of<T> {
    using type = typename T::default_completion_token_type;
};

}  // namespace detail::io

/// The default token of operations whose executor is a T.  May be specialised for a user's type.
template <class T>
struct default_completion_token : detail::io::default_token_of<T> {};
template <class T>
using default_completion_token_t = typename default_completion_token<T>::type;

namespace detail::io {

/// An executor that names a default token, and is otherwise as it was.
template <class Inner, class Token>
struct executor_with_default : Inner {
    using default_completion_token_type = Token;

    // NOLINTBEGIN(google-explicit-constructor): implicit, as in Asio
    executor_with_default(const Inner& ex) noexcept : Inner(ex) {}
    template <class Other>
    requires(!std::same_as<Other, executor_with_default> &&
             std::is_convertible_v<const Other&, Inner>) executor_with_default(const Other& ex)
        : Inner(ex) {}
    // NOLINTEND(google-explicit-constructor)

    friend bool operator==(const executor_with_default& a,
                           const executor_with_default& b) noexcept {
        return static_cast<const Inner&>(a) == static_cast<const Inner&>(b);
    }
};

/// What it is without that.
template <class Executor>
struct without_default {
    using type = Executor;
};
template <class Inner, class Token>
struct without_default<executor_with_default<Inner, Token>> : without_default<Inner> {};
template <class Executor>
using without_default_t = typename without_default<Executor>::type;

/// A base of tokens that may be an object's default.
template <class Token>
struct may_be_default {
    template <class Inner>
    using executor_with_default = detail::io::executor_with_default<Inner, Token>;

    /// The object, with an executor that names this token.
    template <class Object>
    using as_default_on_t = typename Object::template rebind_executor<
        executor_with_default<typename Object::executor_type>>::other;

    template <class Object>
    [[nodiscard]] static auto as_default_on(Object&& object) {
        return as_default_on_t<std::decay_t<Object>>(std::forward<Object>(object));
    }
};

/// The default token of what an initiation begins.
template <class Initiation>
struct default_token_of_initiation {
    using type = deferred_t;
};
template <class Initiation>
requires requires {
    typename Initiation::executor_type;
}
struct default_token_of_initiation<Initiation> {
    using type = default_completion_token_t<typename Initiation::executor_type>;
};
template <class Initiation>
using default_token_of_initiation_t =
    typename default_token_of_initiation<std::decay_t<Initiation>>::type;

}  // namespace detail::io

}  // namespace verge
