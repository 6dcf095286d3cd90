// A stranger's program: uses an installed Verge, both its headers and its library.
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/verge.hpp>

#include <chrono>
#include <thread>
#include <utility>

int main() {
    using namespace std::chrono_literals;
    verge::parker parker;
    verge::callback wake = [&] { parker.unpark(); };
    std::thread waker(std::move(wake));
    const bool woken = parker.park(verge::deadline_after(verge::steady_source{}.now(), 60s));
    waker.join();

    verge::manual_clock clock;
    clock.advance(24h);

    verge::fibers::scheduler fibers;
    const auto slept = fibers.spawn([] { return verge::this_fiber::sleep_for(1ms); }).join();
    if (slept != verge::fibers::sleep_result::elapsed) return 1;
    return woken && clock.now() == verge::time_point(24h) ? 0 : 1;
}
