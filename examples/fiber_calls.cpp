// Three thousand calls at once, each a fiber that reads like plain code: ask, wait at most half a
// second for the answer, try again once, give up.  A plain program would need as many threads.
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

using namespace std::chrono_literals;
using verge::fibers::fiber;
using verge::fibers::scheduler;

// A server that answers after a while, or, one time in eight, not at all.
struct question {
    std::atomic<std::uint32_t> answered{0};
};

void ask(scheduler& fibers, std::shared_ptr<question> q, std::uint32_t number) {
    fibers
        .spawn([q = std::move(q), number] {
            if (number % 8 == 0) return;  // lost
            verge::this_fiber::sleep_for(std::chrono::milliseconds(1 + number % 20));
            q->answered.store(1);
            verge::notify_all(q->answered);
        })
        .detach();
}

enum class outcome : std::uint8_t { answered, answered_late, lost };

outcome call(scheduler& fibers, std::uint32_t number) {
    for (const std::uint32_t attempt : {0U, 1U}) {
        const auto q = std::make_shared<question>();
        ask(fibers, q, number + attempt * 4);
        const verge::time_point deadline =
            verge::deadline_after(verge::steady_source{}.now(), 500ms);
        while (q->answered.load() == 0) {
            if (verge::wait(q->answered, 0, deadline) == verge::wait_result::timed_out) {
                break;
            }
        }
        if (q->answered.load() != 0)
            return attempt == 0 ? outcome::answered : outcome::answered_late;
    }
    return outcome::lost;
}

}  // namespace

int main() {
    constexpr std::uint32_t calls = 3000;
    scheduler fibers;
    std::vector<fiber<outcome>> running;
    for (std::uint32_t i = 0; i < calls; ++i)
        running.push_back(fibers.spawn([&fibers, i] { return call(fibers, i); }));
    std::uint32_t counts[3] = {};
    for (fiber<outcome>& each : running)
        ++counts[static_cast<std::size_t>(each.join())];
    std::printf("%u answered, %u answered at the second attempt, %u lost\n", counts[0], counts[1],
                counts[2]);
    const auto stats = fibers.stats();
    std::printf("%llu fibers on %llu threads\n", static_cast<unsigned long long>(stats.spawned),
                static_cast<unsigned long long>(stats.workers));
    return counts[0] + counts[1] + counts[2] == calls && counts[1] > 0 ? 0 : 1;
}
