// verge/io/execution.hpp -- properties of executors, and require, prefer and query.
//
//     auto quiet = verge::require(ex, verge::execution::blocking.never);       // or no compile
//     auto kept = verge::prefer(ex, verge::execution::outstanding_work.tracked);  // or unchanged
//     verge::execution_context& where = verge::query(ex, verge::execution::context);
//
// An executor is a small value that defines where and how functions run: execute(f).  A property is
// one aspect of how.  As in Asio, an executor supports a property by member functions
// `require(property)` and `query(property)`.
//
//   blocking          never: execute() returns before the function runs; possibly: on one of the
//                     context's own threads it may run inside execute(); always
//   relationship      fork: an independent task; continuation: the rest of the present one
//   outstanding_work  tracked: the executor itself counts as work, so that run() does not return
//   mapping           thread; new_thread; other
//   allocator(a)      what execute() allocates with
//   context           the execution_context
//
// The executors of io_context and thread_pool support all of these except blocking.always; their
// mapping is `thread`, and can only be queried.
//
// An executor of your own needs execute() and ==; with query(context) it fits into any_io_executor,
// and with require(blocking.never) it can be posted to through it:
//
//     struct my_executor {
//         my_context* context;
//         template <class F>
//         void execute(F&& f) const { context->queue(verge::callback(std::forward<F>(f))); }
//         verge::execution_context& query(verge::execution::context_t) const { return *context; }
//         my_executor require(verge::execution::blocking_t::never_t) const { return *this; }
//         bool operator==(const my_executor&) const = default;
//     };
//
// For authors of executors and of operations.  To give a function to an executor use post, dispatch
// and defer (verge/io/post.hpp), which set these properties.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io/executor_test.cpp)
//   PropertiesAreRequiredAndQueried     ABlockingNeverExecutorDoesNotNest
//   ATrackingExecutorIsWork             AnAllocatorPropertyIsUsed
//
// Thread safety: as an int.
// Exceptions: none, except those of the executor's own require and query.

#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace verge {

class execution_context;

namespace execution {

namespace detail::io {

/// One value of a property, as a type: blocking_t::never_t.
template <class Property, int Number>
struct property_value {
    static constexpr int number = Number;
    static constexpr Property value() { return Property(Number); }
    constexpr operator Property() const noexcept { return Property(Number); }  // NOLINT: as in Asio
    friend constexpr bool operator==(property_value, property_value) noexcept { return true; }
};

/// The property itself: the result of a query, and the scope of its values.
template <class Property>
class property_base {
public:
    constexpr property_base() noexcept = default;
    constexpr explicit property_base(int number) noexcept : number_(number) {}
    [[nodiscard]] constexpr int number() const noexcept { return number_; }
    friend constexpr bool operator==(const Property& a, const Property& b) noexcept {
        return a.number() == b.number();
    }

private:
    int number_ = -1;
};

}  // namespace detail::io

/// Whether execute() may run the function before it returns.
struct blocking_t : detail::io::property_base<blocking_t> {
    using property_base::property_base;
    struct possibly_t : detail::io::property_value<blocking_t, 0> {};
    struct always_t : detail::io::property_value<blocking_t, 1> {};
    struct never_t : detail::io::property_value<blocking_t, 2> {};
    static constexpr possibly_t possibly{};
    static constexpr always_t always{};
    static constexpr never_t never{};
};
inline constexpr blocking_t blocking{};

/// Whether the function is a continuation of the caller, or a task of its own.
struct relationship_t : detail::io::property_base<relationship_t> {
    using property_base::property_base;
    struct fork_t : detail::io::property_value<relationship_t, 0> {};
    struct continuation_t : detail::io::property_value<relationship_t, 1> {};
    static constexpr fork_t fork{};
    static constexpr continuation_t continuation{};
};
inline constexpr relationship_t relationship{};

/// Whether the executor counts as work of its context while it exists.
struct outstanding_work_t : detail::io::property_base<outstanding_work_t> {
    using property_base::property_base;
    struct untracked_t : detail::io::property_value<outstanding_work_t, 0> {};
    struct tracked_t : detail::io::property_value<outstanding_work_t, 1> {};
    static constexpr untracked_t untracked{};
    static constexpr tracked_t tracked{};
};
inline constexpr outstanding_work_t outstanding_work{};

/// How functions map to threads.  Can be queried.
struct mapping_t : detail::io::property_base<mapping_t> {
    using property_base::property_base;
    struct thread_t : detail::io::property_value<mapping_t, 0> {};
    struct new_thread_t : detail::io::property_value<mapping_t, 1> {};
    struct other_t : detail::io::property_value<mapping_t, 2> {};
    static constexpr thread_t thread{};
    static constexpr new_thread_t new_thread{};
    static constexpr other_t other{};
};
inline constexpr mapping_t mapping{};

/// The allocator for what execute() stores: execution::allocator(a) is the property with a value;
/// execution::allocator alone, in a query, asks for it.
template <class Allocator>
struct allocator_t {
    Allocator allocator;
    [[nodiscard]] Allocator value() const { return allocator; }
};
template <>
struct allocator_t<void> {
    template <class Allocator>
    constexpr allocator_t<Allocator> operator()(const Allocator& a) const {
        return {a};
    }
};
inline constexpr allocator_t<void> allocator{};

/// The execution context of an executor.  Can be queried.
struct context_t {};
inline constexpr context_t context{};

/// The same, as a T: query(ex, context_as<my_context&>) casts the reference.
template <class T>
struct context_as_t {};
template <class T>
inline constexpr context_as_t<T> context_as{};

/// A type that has execute(f), whose copy does not throw, and that compares equal to its copies.
template <class T>
concept executor = requires(const T& ex, void (*f)()) {
    ex.execute(f);
}
&&std::is_nothrow_copy_constructible_v<T>&& std::equality_comparable<T>;

}  // namespace execution

/// The same as a constant and as a type, as in Asio.
template <class T>
inline constexpr bool is_executor_v = execution::executor<T>;
template <class T>
struct is_executor : std::bool_constant<execution::executor<T>> {};

namespace detail::io {

/// An execution context with an executor, and not merely an object that has an executor, as timers
/// do.
template <class T>
concept context_with_executor = std::derived_from<T, execution_context> && requires(T& context) {
    context.get_executor();
};

/// What an executor supports by its members.
template <class Executor, class Property>
concept has_require = requires(const Executor& ex, const Property& p) {
    ex.require(p);
};
template <class Executor, class Property>
concept has_prefer = requires(const Executor& ex, const Property& p) {
    ex.prefer(p);
};
template <class Executor, class Property>
concept has_query = requires(const Executor& ex, const Property& p) {
    ex.query(p);
};

}  // namespace detail::io

/// A copy of `ex` with that property; with several, left to right.  Does not compile if `ex` does
/// not support one of them.
template <class Executor, class Property>
requires detail::io::has_require<Executor, Property>
[[nodiscard]] auto require(const Executor& ex, const Property& property) {
    return ex.require(property);
}
template <class Executor, class Property, class Second, class... More>
[[nodiscard]] auto require(const Executor& ex, const Property& first, const Second& second,
                           const More&... more) {
    return verge::require(verge::require(ex, first), second, more...);
}

/// A copy of `ex` with that property if `ex` supports it, or else a plain copy; with several, left
/// to right.
template <class Executor, class Property>
[[nodiscard]] auto prefer(const Executor& ex, const Property& property) {
    if constexpr (detail::io::has_prefer<Executor, Property>) {
        return ex.prefer(property);
    } else if constexpr (detail::io::has_require<Executor, Property>) {
        return ex.require(property);
    } else {
        return ex;
    }
}
template <class Executor, class Property, class Second, class... More>
[[nodiscard]] auto prefer(const Executor& ex, const Property& first, const Second& second,
                          const More&... more) {
    return verge::prefer(verge::prefer(ex, first), second, more...);
}

/// The value of that property of `ex`.  Does not compile if `ex` does not support the query.
template <class Executor, class Property>
requires detail::io::has_query<Executor, Property>
[[nodiscard]] decltype(auto) query(const Executor& ex, const Property& property) {
    return ex.query(property);
}
/// The context as a T, for an executor that only reports its context.
template <class Executor, class T>
requires(!detail::io::has_query<Executor, execution::context_as_t<T>> &&
         detail::io::has_query<Executor, execution::context_t>) [[nodiscard]] decltype(auto)
    query(const Executor& ex, const execution::context_as_t<T>&) {
    return static_cast<T>(ex.query(execution::context));
}

/// Whether require, query and prefer compile.  prefer always does.
template <class Executor, class Property>
inline constexpr bool can_require_v = detail::io::has_require<Executor, Property>;
template <class Executor, class Property>
inline constexpr bool can_query_v = detail::io::has_query<Executor, Property>;
template <class Executor, class Property>
inline constexpr bool can_prefer_v = true;

}  // namespace verge
