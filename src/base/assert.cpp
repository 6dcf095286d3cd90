// src/base/assert.cpp -- reports a failed VERGE_ASSERT and aborts.

#include <verge/base/detail/assert.hpp>

#include <cstdio>
#include <cstdlib>

namespace verge::detail {

void assertion_failed(const char* file, int line, const char* message,
                      const char* condition) noexcept {
    // One call, so that the lines of two failing threads do not mix.  stderr is unbuffered.
    std::fprintf(stderr, "%s:%d: %s (%s)\n", file, line, message, condition);
    std::abort();
}

}  // namespace verge::detail
