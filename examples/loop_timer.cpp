// An event loop with a timer, a time-out that is cancelled, and a chain that keeps its phase.

#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>
#include <verge/io/steady_timer.hpp>

#include <chrono>
#include <cstdio>
#include <functional>
#include <system_error>

using namespace std::chrono_literals;

int main() {
    verge::io_context io;

    verge::steady_timer timer(io, 5ms);
    timer.async_wait([](std::error_code error) {
        std::printf("5 ms have passed: %s\n", error ? error.message().c_str() : "yes");
    });

    verge::steady_timer timeout(io, 1h);
    timeout.async_wait([](std::error_code error) {
        std::printf("the time-out: %s\n", error ? error.message().c_str() : "expired");
    });
    verge::post(io, [&] { timeout.cancel(); });  // the answer came first

    verge::steady_timer chain(io, 1ms);
    int rounds = 0;
    std::function<void(std::error_code)> again = [&](std::error_code) {
        if (++rounds == 3) return;
        chain.expires_at(chain.expiry() + 1ms);
        chain.async_wait(again);
    };
    chain.async_wait(again);

    std::printf("%zu handlers have run\n", io.run());
    return rounds == 3 ? 0 : 1;
}
