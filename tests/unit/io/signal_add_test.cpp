// A signal that comes while it is added.  It is raised by taking sigaction's place in this program,
// but under a sanitizer, which has taken it already: there this is left out.

#include "unit/io/io_fixture.hpp"
#include <verge/io/signal_set.hpp>

#include <utility>

#include <signal.h>

#include <dlfcn.h>

namespace {

bool raises_next = false;  // at the next call

}  // namespace

extern "C" int sigaction(int number, const struct sigaction* next,
                         struct sigaction* before) noexcept {
    using function = int (*)(int, const struct sigaction*, struct sigaction*);
    static const auto real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "sigaction"));
    const int result = real(number, next, before);
    if (std::exchange(raises_next, false)) ::raise(number);
    return result;
}

namespace verge {
namespace {

// The handler that was there before does not get it any more, so the set must.
TEST(SignalSetAdd, KeepsASignalThatComesMeanwhile) {
    io_context io;
    signal_set signals(io);
    raises_next = true;
    signals.add(SIGUSR1);
    ASSERT_FALSE(raises_next);
    int seen = 0;
    signals.async_wait([&](std::error_code, int number) { seen = number; });
    EXPECT_EQ(io.poll(), 1U);
    EXPECT_EQ(seen, SIGUSR1);
}

}  // namespace
}  // namespace verge
