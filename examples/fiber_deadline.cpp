// A request with a time limit, as plain code: three steps that wait, a limit for all of them
// together, and cleanup that may wait a little when the limit has passed.
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/sync/cancellation.hpp>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

namespace {

using namespace std::chrono_literals;
using verge::this_fiber::sleep_for;

// Says goodbye however it is left, also when a deadline unwinds it.
struct session {
    bool& said_goodbye;
    explicit session(bool& goodbye) noexcept : said_goodbye(goodbye) {}
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() {
        said_goodbye =
            verge::shield(50ms, [] { sleep_for(1ms); }) == verge::deadline_result::completed;
    }
};

std::string fetch(std::chrono::milliseconds each_step, bool& said_goodbye) {
    const session open(said_goodbye);
    for (int step = 0; step < 3; ++step)
        sleep_for(each_step);  // no result to look at: the deadline ends it here
    return "the answer";
}

}  // namespace

int main() {
    verge::fibers::scheduler fibers;
    auto request = fibers.spawn([] {
        bool quick_end = false;
        bool slow_end = false;
        const std::optional<std::string> quick =
            verge::run_within(10s, [&] { return fetch(1ms, quick_end); });
        const std::optional<std::string> slow =
            verge::run_within(20ms, [&] { return fetch(1h, slow_end); });
        std::printf("quick: %s, slow: %s\n", quick ? quick->c_str() : "timed out",
                    slow ? slow->c_str() : "timed out");
        return quick.has_value() && !slow && quick_end && slow_end;
    });

    auto heart = fibers.spawn([] {
        for (;;)
            sleep_for(1s);  // a stop request ends the loop here
    });
    heart.request_stop();
    heart.join();
    return request.join() ? 0 : 1;
}
