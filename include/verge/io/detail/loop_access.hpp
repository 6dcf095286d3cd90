// verge/io/detail/loop_access.hpp -- the event loop behind an executor.
//
// What has a timer, a socket or a signal set needs the loop of its executor, and needs to know
// whether that loop may call a handler itself.

#pragma once

#include <verge/io/any_io_executor.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/loop_executor.hpp>
#include <verge/io/execution.hpp>
#include <verge/io/execution_context.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/thread_pool.hpp>

#include <type_traits>

namespace verge::detail::io {

template <class T>
inline constexpr bool is_loop_executor = false;
template <class Context, class Allocator, bool Tracked>
inline constexpr bool is_loop_executor<loop_executor<Context, Allocator, Tracked>> = true;
template <class Inner, class Token>
inline constexpr bool is_loop_executor<executor_with_default<Inner, Token>> =
    is_loop_executor<Inner>;

/// The loop behind an executor.  One that is not a loop's own has the loop that is a service of its
/// context.
template <class Executor>
loop_core& loop_of(const Executor& ex) {
    if constexpr (is_loop_executor<Executor>) {
        return ex.loop();
    } else {
        if constexpr (std::is_same_v<without_default_t<Executor>, any_io_executor>) {
            if (const auto* io = ex.template target<io_context::executor_type>()) return io->loop();
        }
        execution_context& context = verge::query(ex, execution::context);
        return use_service<loop_core>(context);
    }
}

/// Whether the loop itself may call handlers that have no executor of their own.
template <class Executor>
bool called_by_loop(const Executor& ex) noexcept {
    if constexpr (is_loop_executor<Executor>) {
        return true;
    } else if constexpr (std::is_same_v<without_default_t<Executor>, any_io_executor>) {
        return ex.template target<io_context::executor_type>() != nullptr ||
               ex.template target<thread_pool::executor_type>() != nullptr;
    } else {
        return false;
    }
}

}  // namespace verge::detail::io
