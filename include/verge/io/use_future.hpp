// verge/io/use_future.hpp -- the token that returns a std::future.
//
//     std::future<void> done = timer.async_wait(verge::use_future);
//     done.get();                          // throws std::system_error if it was cancelled
//
// An operation void(error_code, T) returns future<T>; get() throws an error as std::system_error,
// and rethrows an exception_ptr.  Several results are a tuple.  If the operation is destroyed
// without completing, get() throws std::future_error with broken_promise.
//
//     std::future<std::string> line = socket.async_read_some(verge::buffer(data),
//         verge::use_future([&](std::error_code error, std::size_t n) { return text(data, n); }));
//
// use_future(f) calls f with all results, including the error, and returns a future of what f
// returns or throws.  use_future[allocator] allocates the promise and the operation with that
// allocator.
//
// What get() returns, or throws, by the operation's results:
//   void()                          future<void>
//   void(error_code)                future<void>; throws std::system_error
//   void(error_code, T)             future<T>; throws std::system_error
//   void(exception_ptr, T)          future<T>; rethrows it
//   void(error_code, T, U)          future<std::tuple<T, U>>; throws std::system_error
//   void(T, U)                      future<std::tuple<T, U>>
//
// For threads that wait for a loop which another thread runs.  Not for the loop's own thread: get()
// blocks it, so the operation cannot complete.
//
// Guarantees, under the names of the tests that hold them (tests/unit/io)
//   UseFutureGivesResultsAndErrors          ADestroyedOperationBreaksItsPromise  (token_test.cpp)
//   OfAFunctionGivesWhatItReturns           OfAFunctionGetsTheErrorToo           TakesAnAllocator
//
// Thread safety: the future may be moved to, and waited for in, any thread.
// Exceptions: those of the operation when it begins; std::bad_alloc.

#pragma once

#include <verge/io/async_result.hpp>
#include <verge/io/default_completion_token.hpp>

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace verge {

namespace detail::io {

/// The token that use_future(f) returns.
template <class F, class Allocator>
struct packaged_token {
    F f;
    [[no_unique_address]] Allocator allocator;
};

}  // namespace detail::io

/// The type of verge::use_future.  May be the default token of an object: as_default_on() in
/// verge/io/default_completion_token.hpp.
template <class Allocator = std::allocator<void>>
class use_future_t : public detail::io::may_be_default<use_future_t<Allocator>> {
public:
    using allocator_type = Allocator;

    /// With a default allocator.
    constexpr use_future_t() noexcept requires std::is_default_constructible_v<Allocator>
    = default;
    /// With a copy of `allocator`.
    explicit constexpr use_future_t(const Allocator& allocator) noexcept : allocator_(allocator) {}
    /// The same token with another allocator; rebind is its other name.
    template <class Other>
    [[nodiscard]] constexpr use_future_t<Other> operator[](const Other& allocator) const noexcept {
        return use_future_t<Other>(allocator);
    }
    template <class Other>
    [[nodiscard]] constexpr use_future_t<Other> rebind(const Other& allocator) const noexcept {
        return use_future_t<Other>(allocator);
    }
    /// The allocator of the promise and of the operation.
    [[nodiscard]] constexpr allocator_type get_allocator() const noexcept { return allocator_; }
    /// A token that returns a future of the value of f(results...).
    template <class F>
    constexpr auto operator()(F&& f) const {
        return detail::io::packaged_token<std::decay_t<F>, Allocator>{std::forward<F>(f),
                                                                      allocator_};
    }

private:
    [[no_unique_address]] Allocator allocator_;
};
/// The token.
inline constexpr use_future_t<> use_future{};

namespace detail::io {

/// The T of the future: without the error, void for none, a tuple for several.
template <class... Results>
struct future_value {
    using type = std::tuple<std::decay_t<Results>...>;
};
template <>
struct future_value<> {
    using type = void;
};
template <class Result>
struct future_value<Result> {
    using type = std::decay_t<Result>;
};
template <class... Results>
struct future_value<std::error_code, Results...> : future_value<Results...> {};
template <class... Results>
struct future_value<std::exception_ptr, Results...> : future_value<Results...> {};
template <>
struct future_value<std::error_code> {
    using type = void;
};
template <>
struct future_value<std::exception_ptr> {
    using type = void;
};

/// A promise whose allocator is the handler's associated allocator, too.
template <class T, class Allocator>
class allocated_promise {
public:
    using allocator_type = Allocator;
    explicit allocated_promise(const Allocator& allocator)
        : allocator_(allocator), promise_(std::allocator_arg, allocator) {}
    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_; }
    [[nodiscard]] std::future<T> future() { return promise_.get_future(); }

protected:
    std::promise<T>& promise() noexcept { return promise_; }

private:
    [[no_unique_address]] Allocator allocator_;
    std::promise<T> promise_;
};
// With the default allocator: the promise allocates by itself, and the handler has no allocator, so
// that the operation uses the per-thread cache.
template <class T, class U>
class allocated_promise<T, std::allocator<U>> {
public:
    explicit allocated_promise(const std::allocator<U>&) {}
    [[nodiscard]] std::future<T> future() { return promise_.get_future(); }

protected:
    std::promise<T>& promise() noexcept { return promise_; }

private:
    std::promise<T> promise_;
};

/// The handler of use_future: sets the promise's value, or its exception.
template <class T, class Allocator>
class promise_handler : public allocated_promise<T, Allocator> {
    using allocated_promise<T, Allocator>::promise;

public:
    using allocated_promise<T, Allocator>::allocated_promise;

    void operator()() { promise().set_value(); }
    /// An error_code or an exception_ptr that comes first decides; it is not part of the value.
    template <class First, class... More>
    void operator()(First&& first, More&&... more) {
        using type = std::decay_t<First>;
        if constexpr (std::is_same_v<type, std::error_code>) {
            if (first) {
                promise().set_exception(std::make_exception_ptr(std::system_error(first)));
            } else {
                set(std::forward<More>(more)...);
            }
        } else if constexpr (std::is_same_v<type, std::exception_ptr>) {
            if (first) {
                promise().set_exception(first);
            } else {
                set(std::forward<More>(more)...);
            }
        } else {
            set(std::forward<First>(first), std::forward<More>(more)...);
        }
    }

private:
    // One value or none; several are the arguments of the tuple.
    template <class... Results>
    void set(Results&&... results) {
        promise().set_value(std::forward<Results>(results)...);
    }
    template <class First, class Second, class... Results>
    void set(First&& first, Second&& second, Results&&... results) {
        promise().set_value(T(std::forward<First>(first), std::forward<Second>(second),
                              std::forward<Results>(results)...));
    }
};

/// The handler of use_future(f): sets the promise to what f returns or throws.
template <class F, class T, class Allocator>
class packaged_handler : public allocated_promise<T, Allocator> {
    using allocated_promise<T, Allocator>::promise;

public:
    template <class G>
    packaged_handler(const Allocator& allocator, G&& f)
        : allocated_promise<T, Allocator>(allocator), f_(std::forward<G>(f)) {}

    template <class... Results>
    void operator()(Results&&... results) {
        try {
            if constexpr (std::is_void_v<T>) {
                std::invoke(std::move(f_), std::forward<Results>(results)...);
                promise().set_value();
            } else {
                promise().set_value(std::invoke(std::move(f_), std::forward<Results>(results)...));
            }
        } catch (...) {
            promise().set_exception(std::current_exception());
        }
    }

private:
    F f_;
};

}  // namespace detail::io

// The future is taken before the operation begins: it may complete in another thread at once.
template <class Allocator, class R, class... Results>
struct async_result<use_future_t<Allocator>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static auto initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        using value = typename detail::io::future_value<std::decay_t<Results>...>::type;
        detail::io::promise_handler<value, Allocator> handler(token.get_allocator());
        std::future<value> future = handler.future();
        std::forward<Initiation>(initiation)(std::move(handler), std::forward<Args>(args)...);
        return future;
    }
};

// The same with a function.
template <class F, class Allocator, class R, class... Results>
struct async_result<detail::io::packaged_token<F, Allocator>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static auto initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        using value = std::invoke_result_t<F, Results...>;
        detail::io::packaged_handler<F, value, Allocator> handler(
            token.allocator, detail::io::forward_inner<Raw>(token.f));
        std::future<value> future = handler.future();
        std::forward<Initiation>(initiation)(std::move(handler), std::forward<Args>(args)...);
        return future;
    }
};

}  // namespace verge
