// src/fibers/execution.cpp -- prepares, switches and ends executions.

#include <verge/base/detail/assert.hpp>
#include <verge/fibers/detail/execution.hpp>

#include <cerrno>
#include <cstdlib>

#include <cxxabi.h>

namespace verge::fibers::detail {

thread_state::thread_state() noexcept
    : exceptions_(reinterpret_cast<exception_state*>(abi::__cxa_get_globals())), errno_(&errno) {}

void execution::prepare(std::byte* low, std::byte* top, entry fn, void* argument) noexcept {
    caught_ = nullptr;
    uncaught_ = 0;
    errno_ = 0;
#ifdef __ARM_EABI_UNWINDER__
    propagating_ = nullptr;
#endif
    sp_ = make_stack(low, top, fn, argument, *this);
    watch_.prepare(low, top);
}

void execution::finish(execution& next, thread_state& here) noexcept {
    exchange_state(next, here);
    watch_.end_for(next.watch_);
    switch_stack(&sp_, next.sp_);
    std::abort();
}

void execution::begin(entry fn, void* argument, execution& self) noexcept {
    self.watch_.arrive();
    fn(argument);
    // In every build: there is no frame to return to.
    verge::detail::assertion_failed(__FILE__, __LINE__, "a fiber's entry returned",
                                    "it ends with finish()");
}

}  // namespace verge::fibers::detail
