// verge/fibers/detail/stack_watch.hpp -- informs ASan and TSan about stack switches.
//
// One per execution.  Without these tools it is empty, and so are its functions.
//
// ASan needs the bounds of the stack that is switched to, and keeps a fake stack for each.  TSan
// keeps a context for each.  Both must be called immediately before the switch, and ASan
// immediately after it as well; the bounds of a thread's own stack are reported by ASan when that
// stack has been left.
//
// What precedes the switch is always inlined into the function that switches.  TSan records the
// return from a function in the current context: no function may return between its switch and
// ours.  And no function here has a local variable whose address is taken: it would be on the fake
// stack that ASan is exchanging.
//
// Thread safety: as the execution's.  Exceptions: none.

#pragma once

#include <verge/base/detail/annotate.hpp>

#include <cstddef>

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

namespace verge::fibers::detail {

/// Without the tools: empty.
template <bool Watched>
class stack_watch {
public:
    void prepare(std::byte*, std::byte*) noexcept {}
    void leave_for(stack_watch&) noexcept {}
    void end_for(stack_watch&) noexcept {}
    void arrive() noexcept {}
};

template <>
class stack_watch<true> {
public:
    stack_watch() noexcept = default;
    ~stack_watch();
    stack_watch(const stack_watch&) = delete;
    stack_watch& operator=(const stack_watch&) = delete;

    void prepare(std::byte* low, std::byte* top) noexcept;
    /// Immediately before the switch.
    [[gnu::always_inline]] void leave_for(stack_watch& next) noexcept { switch_to(next, &fake_); }
    /// The same for a stack that has ended: ASan frees its fake stack.
    [[gnu::always_inline]] void end_for(stack_watch& next) noexcept {
        over_ = true;
        switch_to(next, nullptr);
    }
    /// Immediately after it, on the stack arrived at.
    void arrive() noexcept;

private:
    [[gnu::always_inline]] void switch_to(stack_watch& next,
                                          [[maybe_unused]] void** fake) noexcept {
        using namespace verge::detail;
        next.from_ = this;
        if constexpr (has_asan) __sanitizer_start_switch_fiber(fake, next.low_, next.size_);
        if constexpr (has_tsan) {
            if (context_ == nullptr) context_ = __tsan_get_current_fiber();
            __tsan_switch_to_fiber(next.context_, 0);
        }
    }
    void forget() noexcept;

    const void* low_ = nullptr;  // ASan: the stack
    std::size_t size_ = 0;
    void* fake_ = nullptr;         // ASan: its fake stack, while it is suspended
    void* context_ = nullptr;      // TSan's
    bool owns_ = false;            // the context: it was made here; a thread's own belongs to TSan
    bool over_ = false;            // it has ended
    stack_watch* from_ = nullptr;  // the one that switched to it last
};

}  // namespace verge::fibers::detail
