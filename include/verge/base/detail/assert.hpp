// verge/base/detail/assert.hpp -- VERGE_ASSERT(condition, "message"): a precondition, checked in
// debug builds.
//
// Without NDEBUG a false condition prints `file:line: message (condition)` to stderr and aborts.
// With NDEBUG the condition is compiled, so that it stays valid, but never evaluated.  Either way
// it is an expression of type void and may be used in a constexpr function.
//
// It is for errors of the caller and for our own invariants.  It is not for run-time failures: a
// full pool or a failed system call is a result or an exception.

#pragma once

namespace verge::detail {

/// Prints the failure to stderr and aborts.  Always in the library, so that a debug program may
/// link with a release build of it.
[[noreturn, gnu::cold]] void assertion_failed(const char* file, int line, const char* message,
                                              const char* condition) noexcept;

}  // namespace verge::detail

#ifdef NDEBUG
#define VERGE_ASSERT(condition, message) \
    static_cast<void>(false && ((condition) || (static_cast<const char*>(message) != nullptr)))
#else
#define VERGE_ASSERT(condition, message) \
    (static_cast<bool>(condition)        \
         ? void()                        \
         : ::verge::detail::assertion_failed(__FILE__, __LINE__, message, #condition))
#endif
