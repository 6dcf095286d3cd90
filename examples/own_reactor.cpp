// The reactor without an event loop around it: a pipe, a timer, and a thread that interrupts.

#include <verge/driver/reactor.hpp>

#include <chrono>
#include <cstdio>
#include <system_error>

#include <unistd.h>

using namespace std::chrono_literals;

int main() {
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    verge::reactor reactor;
    verge::reactor::descriptor* const in = reactor.add(ends[0]);

    bool done = false;
    reactor.wait_for(*in, verge::fd_event::read, [&](std::error_code error) {
        std::printf("the pipe is readable: %s\n", error ? error.message().c_str() : "yes");
        done = true;
    });
    reactor.arm(verge::steady_source{}.now() + 5ms, [&] {
        std::puts("5 ms have passed");
        if (::write(ends[1], "x", 1) != 1) done = true;
    });
    while (!done)
        reactor.wait(verge::never);

    reactor.remove(in);
    ::close(ends[0]);
    ::close(ends[1]);
    return 0;
}
