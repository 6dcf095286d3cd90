// verge/io/use_future.hpp -- the token that gives a std::future.
//
//     std::future<void> done = timer.async_wait(verge::use_future);
//     done.get();                          // throws std::system_error if it was cancelled
//
// void(error_code, T) gives future<T>; an error, or an exception_ptr, comes out of get().  Several
// results come as a tuple.  An operation that is destroyed without completing breaks the promise.
//
//     std::future<std::string> line = socket.async_read_some(verge::buffer(data),
//         verge::use_future([&](std::error_code error, std::size_t n) { return text(data, n); }));
//
// use_future(f) calls f with all results, the error too, and gives a future of what f returns or
// throws.
//
// Not for the loop's own thread: get() blocks, and nobody runs the loop then.

#pragma once

#include <verge/io/async_result.hpp>

#include <exception>
#include <functional>
#include <future>
#include <tuple>
#include <type_traits>
#include <utility>

#include <system_error>

namespace verge {

namespace detail {

template <class F>
struct packaged_token {
    F f;
};

}  // namespace detail

struct use_future_t {
    constexpr use_future_t() noexcept = default;
    /// A token for: a future of what f(results...) returns.
    template <class F>
    constexpr auto operator()(F&& f) const {
        return detail::packaged_token<std::decay_t<F>>{std::forward<F>(f)};
    }
};
inline constexpr use_future_t use_future{};

namespace detail {

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

template <class T>
class promise_handler {
public:
    [[nodiscard]] std::future<T> future() { return promise_.get_future(); }

    void operator()() { promise_.set_value(); }
    template <class First, class... More>
    void operator()(First&& first, More&&... more) {
        using type = std::decay_t<First>;
        if constexpr (std::is_same_v<type, std::error_code>) {
            if (first) {
                promise_.set_exception(std::make_exception_ptr(std::system_error(first)));
            } else {
                set(std::forward<More>(more)...);
            }
        } else if constexpr (std::is_same_v<type, std::exception_ptr>) {
            if (first) {
                promise_.set_exception(first);
            } else {
                set(std::forward<More>(more)...);
            }
        } else {
            set(std::forward<First>(first), std::forward<More>(more)...);
        }
    }

private:
    template <class... Results>
    void set(Results&&... results) {
        promise_.set_value(std::forward<Results>(results)...);
    }
    template <class First, class Second, class... Results>
    void set(First&& first, Second&& second, Results&&... results) {
        promise_.set_value(T(std::forward<First>(first), std::forward<Second>(second),
                             std::forward<Results>(results)...));
    }
    std::promise<T> promise_;
};

template <class F, class T>
class packaged_handler {
public:
    template <class G>
    explicit packaged_handler(G&& f) : f_(std::forward<G>(f)) {}
    [[nodiscard]] std::future<T> future() { return promise_.get_future(); }

    template <class... Results>
    void operator()(Results&&... results) {
        try {
            if constexpr (std::is_void_v<T>) {
                std::invoke(std::move(f_), std::forward<Results>(results)...);
                promise_.set_value();
            } else {
                promise_.set_value(std::invoke(std::move(f_), std::forward<Results>(results)...));
            }
        } catch (...) {
            promise_.set_exception(std::current_exception());
        }
    }

private:
    F f_;
    std::promise<T> promise_;
};

}  // namespace detail

template <class R, class... Results>
struct async_result<use_future_t, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static auto initiate(Initiation&& initiation, Raw&&, Args&&... args) {
        using value = typename detail::future_value<std::decay_t<Results>...>::type;
        detail::promise_handler<value> handler;
        std::future<value> future = handler.future();
        std::forward<Initiation>(initiation)(std::move(handler), std::forward<Args>(args)...);
        return future;
    }
};

template <class F, class R, class... Results>
struct async_result<detail::packaged_token<F>, R(Results...)> {
    template <class Initiation, class Raw, class... Args>
    static auto initiate(Initiation&& initiation, Raw&& token, Args&&... args) {
        using value = std::invoke_result_t<F, Results...>;
        detail::packaged_handler<F, value> handler(detail::forward_inner<Raw>(token.f));
        std::future<value> future = handler.future();
        std::forward<Initiation>(initiation)(std::move(handler), std::forward<Args>(args)...);
        return future;
    }
};

}  // namespace verge
