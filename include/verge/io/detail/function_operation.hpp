// verge/io/detail/function_operation.hpp -- an operation that calls a function.

#pragma once

#include <verge/io/detail/operation.hpp>
#include <verge/io/detail/thread_cache.hpp>

#include <type_traits>
#include <utility>

namespace verge::detail::io {

/// Holds the function and a copy of its allocator.
template <class F, class Allocator>
class function_operation final : public operation {
    using memory = op_memory<function_operation, Allocator>;

public:
    template <class G>
    function_operation(G&& f, const Allocator& allocator)
        : operation(&run), allocator_(allocator), f_(std::forward<G>(f)) {}

private:
    static void run(void* owner, operation* base) {
        auto* const self = static_cast<function_operation*>(base);
        if constexpr (requires { requires F::hands_over_operations; }) {
            if (owner != nullptr && self->complete_at(self->f_, &finish<true>, owner)) return;
        }
        finish<false>(owner, self);
    }
    template <bool AtHome>
    static void finish(void* owner, operation* base) {
        auto* const self = static_cast<function_operation*>(base);
        const Allocator allocator(self->allocator_);
        tracked_call tracked(*self);
        F f(std::move(self->f_));
        memory::destroy(allocator, self);  // before the call, which may reuse the memory
        if (owner == nullptr) return;
        tracked.begin();
        if constexpr (AtHome) {
            f.call_at_home();
        } else {
            f();
        }
        tracked.end();
    }

    [[no_unique_address]] Allocator allocator_;
    F f_;
};

/// Makes one.  Throws what `f`'s move and the allocator throw.
template <class F, class Allocator>
[[nodiscard]] operation* make_function_operation(F&& f, const Allocator& allocator,
                                                 const handler_origin& from) {
    using type = function_operation<std::decay_t<F>, Allocator>;
    type* const made = op_memory<type, Allocator>::create(allocator, std::forward<F>(f), allocator);
    made->created(from);
    return made;
}

}  // namespace verge::detail::io
