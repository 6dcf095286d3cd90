// verge/fibers/blocking.hpp -- a call that blocks its thread, made by a fiber.
//
//     const auto address = verge::fibers::blocking([&] { return resolve(host); });
//
// The call runs on a helper thread while the fiber waits and its worker runs other fibers.
// Helpers are started when all are busy (at most 512 at a time: then calls queue up), and end when
// they have been idle for a few seconds.  It costs two thread switches, some 20 us or more: not for
// short calls.
//
// On a plain thread, and in a native fiber, the call is made in place.
//
// Guarantees, under the names of the tests that hold them
//   GivesTheResult            or throws what the call threw.
//   TheWorkerGoesOn           other fibers of the worker run meanwhile.
//   ManyCallsBlockAtOnce      each on a thread of its own.
//
// Thread safety: any thread or fiber.  The call runs on another thread, so its thread_local
// variables and errno are not those of the caller.
// Exceptions: what the call throws; std::system_error if there is no helper and the system refuses
// a thread: then the call was not made.

#pragma once

#include <verge/base/callback.hpp>

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace verge::fibers {

namespace detail {

/// Runs `call`, which must not throw, on a helper thread and waits for it; or in place, if the
/// caller is not a fiber with a stack of its own.
void run_blocking(callback call);

}  // namespace detail

/// Calls `f` on a helper thread and waits for it; returns its result or throws what it threw.  The
/// wait is not ended by an interrupt or a stop: `f` refers to the caller's stack.
template <class F>
std::invoke_result_t<F&> blocking(F&& f) {
    using result = std::invoke_result_t<F&>;
    std::exception_ptr error;
    const auto guarded = [&error](auto&& call) {
        return [&error, &call] {
            try {
                call();
            } catch (...) {
                error = std::current_exception();
            }
        };
    };
    if constexpr (std::is_void_v<result>) {
        detail::run_blocking(guarded(f));
        if (error) std::rethrow_exception(error);
    } else {
        std::optional<result> value;
        const auto keep = [&] { value.emplace(f()); };
        detail::run_blocking(guarded(keep));
        if (error) std::rethrow_exception(error);
        return std::move(*value);
    }
}

}  // namespace verge::fibers
