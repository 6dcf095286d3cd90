// A queue at a counter, in virtual time: customers come at random, one clerk serves them in turn.
//
// Nothing waits: time jumps from one event to the next, and a year takes a fraction of a second.
// Queueing theory knows the answer (M/M/1): with 30 arrivals and 60 services an hour, a customer
// spends two minutes at the counter on average.  The program fails if it sees anything else.
#include <verge/queue/local_timers.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <random>

using namespace std::chrono_literals;

namespace {

struct counter {
    verge::local_timers timers;
    std::mt19937_64 random{42};
    std::deque<verge::time_point> queue;  // when each came; the first is being served
    std::uint64_t served = 0;
    verge::duration spent{};
    bool open = true;

    verge::duration around(verge::duration mean) {
        const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
        return verge::duration(
            std::llround(-std::log(uniform) * static_cast<double>(mean.count())));
    }

    void next_comes() {
        timers.schedule_after(around(2min), [this] {
            queue.push_back(timers.now());
            if (queue.size() == 1) serve();
            if (open) next_comes();
        });
    }

    void serve() {
        timers.schedule_after(around(1min), [this] {
            spent += timers.now() - queue.front();
            queue.pop_front();
            ++served;
            if (!queue.empty()) serve();
        });
    }
};

}  // namespace

int main() {
    counter c;
    c.next_comes();
    c.timers.schedule_after(24h * 7 * 52, [&] { c.open = false; });  // a year, then home
    while (c.timers.next_expiry() != verge::never)
        c.timers.run_due(c.timers.next_expiry());

    const double minutes = std::chrono::duration<double, std::ratio<60>>(c.spent).count() /
                           static_cast<double>(c.served);
    std::printf("%llu customers, %.3f minutes each on average, theory says 2\n",
                static_cast<unsigned long long>(c.served), minutes);
    const bool as_expected = c.served > 250'000 && std::abs(minutes - 2) < 0.05;
    return as_expected && c.queue.empty() ? 0 : 1;
}
