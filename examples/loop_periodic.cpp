// A periodic timer in an event loop, and an operation with a time limit.

#include <verge/io/cancel_after.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/periodic_timer.hpp>
#include <verge/io/steady_timer.hpp>

#include <chrono>
#include <cstdio>
#include <functional>
#include <system_error>

using namespace std::chrono_literals;

int main() {
    verge::io_context io;

    verge::periodic_timer ticks(io, 2ms);
    int count = 0;
    std::function<void(std::error_code)> tick = [&](std::error_code error) {
        if (error) return;
        std::printf("tick %d\n", ++count);
        if (count < 5) ticks.async_wait(tick);
    };
    ticks.async_wait(tick);

    verge::steady_timer slow(io, 1h);
    bool timed_out = false;
    verge::with_timeout(slow.async_wait(), 5ms)([&](std::error_code error) {
        timed_out = error == verge::error::timed_out;
        std::printf("the slow operation: %s\n", error.message().c_str());
    });

    io.run();
    return count == 5 && timed_out ? 0 : 1;
}
