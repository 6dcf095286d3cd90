// src/fibers/stack_watch.cpp -- the calls of ASan and TSan around a stack switch.

#include <verge/fibers/detail/stack_watch.hpp>

namespace verge::fibers::detail {

using verge::detail::has_asan;
using verge::detail::has_tsan;

stack_watch<true>::~stack_watch() {
    forget();
}

void stack_watch<true>::forget() noexcept {
    if constexpr (has_tsan) {
        if (owns_) __tsan_destroy_fiber(context_);
    }
    context_ = nullptr;
    owns_ = false;
}

void stack_watch<true>::prepare(std::byte* low, std::byte* top) noexcept {
    forget();
    low_ = low;
    size_ = static_cast<std::size_t>(top - low);
    fake_ = nullptr;
    over_ = false;
    if constexpr (has_tsan) {
        context_ = __tsan_create_fiber(0);
        owns_ = true;
    }
}

void stack_watch<true>::arrive() noexcept {
    if constexpr (has_asan) __sanitizer_finish_switch_fiber(fake_, &from_->low_, &from_->size_);
    // Now, and not in the destructor: g++ 12's TSan has room for 8,128 contexts.
    if (from_->over_) from_->forget();
}

}  // namespace verge::fibers::detail
