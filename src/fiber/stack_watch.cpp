#include <verge/fiber/detail/stack_watch.hpp>

// The tools' own declarations, as in <sanitizer/common_interface_defs.h> and tsan_interface.h.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old,
                                     std::size_t* size_old);
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// No function here has a local variable whose address is taken: ASan would put it on the fake stack
// that is being exchanged.

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

void stack_watch<true>::leave_for(stack_watch& next) noexcept {
    switch_to(next, &fake_);
}

void stack_watch<true>::end_for(stack_watch& next) noexcept {
    over_ = true;
    switch_to(next, nullptr);  // nullptr: ASan frees the fake stack
}

void stack_watch<true>::switch_to(stack_watch& next, [[maybe_unused]] void** fake) noexcept {
    next.from_ = this;
    if constexpr (has_asan) __sanitizer_start_switch_fiber(fake, next.low_, next.size_);
    if constexpr (has_tsan) {
        if (context_ == nullptr) context_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(next.context_, 0);
    }
}

void stack_watch<true>::arrive() noexcept {
    if constexpr (has_asan) __sanitizer_finish_switch_fiber(fake_, &from_->low_, &from_->size_);
    // Now, and not when the object goes: g++ 12's TSan has room for 8,128 contexts.
    if (from_->over_) from_->forget();
}

}  // namespace verge::fibers::detail
