// verge/fiber/detail/stack_watch.hpp -- tells ASan and TSan which stack runs.
//
// One an execution.  Without these tools it is empty, and its functions are too.
//
// ASan wants to know the bounds of the stack that is switched to, and keeps a fake stack for each.
// TSan keeps a context for each.  Both want to be told in the last moment before the switch, and
// ASan in the first after it as well; a thread's own bounds are learnt when it has been left.
//
// Thread safety: as the execution's.  Exceptions: none.

#pragma once

#include <verge/base/detail/annotate.hpp>

#include <cstddef>

namespace verge::fibers::detail {

/// Not watched.
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
    void leave_for(stack_watch& next) noexcept;  // immediately before the switch
    void end_for(stack_watch& next) noexcept;    // the same, and it does not come back
    void arrive() noexcept;                      // immediately after it, on the stack arrived at

private:
    void switch_to(stack_watch& next, void** fake) noexcept;
    void forget() noexcept;

    const void* low_ = nullptr;  // ASan: the stack
    std::size_t size_ = 0;
    void* fake_ = nullptr;         // ASan: its fake stack, while it is suspended
    void* context_ = nullptr;      // TSan's
    bool owns_ = false;            // the context: it was made here; a thread's own belongs to TSan
    bool over_ = false;            // it does not come back
    stack_watch* from_ = nullptr;  // who switched to it last
};

}  // namespace verge::fibers::detail
