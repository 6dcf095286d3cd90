// verge/io/default_completion_token.hpp -- the token of an operation that is given none.
//
//     using timer = verge::use_future_t<>::as_default_on_t<verge::steady_timer>;
//     timer(io, 1s).async_wait().get();
//     auto quiet = verge::detached.as_default_on(verge::steady_timer(io, 1s));
//     quiet.async_wait();
//
// It belongs to the type of the object's executor: `deferred`, unless that type declares
// `default_completion_token_type`. as_default_on_t<Object> is the object with such an executor, and
// as_default_on(object) converts an object, whose pending operations move along.  deferred_t,
// detached_t, use_future_t and as_tuple_t have both.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/default_token_test.cpp)
//   IsThatOfTheExecutor      AsDefaultOnTakesWaitsAlong      AnAdapterAloneAdaptsIt
//   AStrandMayHaveOne        AFunctionMayBePostedWithout
//   CostsNothing             the loop calls the handler in place, as with a plain executor.
//
// Thread safety and exceptions: those of the executor and of the object.

#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace verge {

struct deferred_t;

namespace detail::io {

/// The declared token of an executor type, or else deferred.
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
/// That token, as a type; it must be default constructible to be used.
template <class T>
using default_completion_token_t = typename default_completion_token<T>::type;

namespace detail::io {

/// An executor that declares a default token, and otherwise is `Inner`.  Converts from any executor
/// that converts to `Inner`.
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

/// The executor without the declaration, through any number of layers.
template <class Executor>
struct without_default {
    using type = Executor;
};
template <class Inner, class Token>
struct without_default<executor_with_default<Inner, Token>> : without_default<Inner> {};
template <class Executor>
using without_default_t = typename without_default<Executor>::type;

/// The base of tokens that can be the default of an object.
template <class Token>
struct may_be_default {
    template <class Inner>
    using executor_with_default = detail::io::executor_with_default<Inner, Token>;

    /// The type of the object with an executor that declares this token.
    template <class Object>
    using as_default_on_t = typename Object::template rebind_executor<
        executor_with_default<typename Object::executor_type>>::other;

    /// `object` with this token as its default: moved, with its pending operations, or copied.
    template <class Object>
    [[nodiscard]] static auto as_default_on(Object&& object) {
        return as_default_on_t<std::decay_t<Object>>(std::forward<Object>(object));
    }
};

/// The default token of the operation that an initiation begins: that of its executor.
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
