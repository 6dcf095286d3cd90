// A client with time-outs and retries: each call arms a timer, the answer cancels it.
//
// The "server" is a timer too: it answers after a random latency, and loses one call in twenty.  A
// lost call is tried again, up to three times, after a growing pause.

#include <verge/driver/timer_thread.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <semaphore>
#include <vector>

using namespace std::chrono_literals;

namespace {

verge::timer_thread timers;

struct call : std::enable_shared_from_this<call> {
    explicit call(std::counting_semaphore<>& d) : done(d) {}

    void send() {
        ++attempts;
        // The time-out.  It holds the call by a counted pointer, which cancel() gives back at once.
        // From here on the timer thread may be in the next send(): an attempt keeps its own id.
        const verge::timer_id time_out =
            timers.schedule_after(20ms, [self = shared_from_this()] { self->timed_out(); });
        // The server, as far as this example has one.
        thread_local std::mt19937 random(7);
        if (random() % 20 == 0) return;  // lost on the way
        const auto latency = std::chrono::microseconds(100 + random() % 900);
        timers.schedule_after(latency,
                              [self = shared_from_this(), time_out] { self->answered(time_out); });
    }

    void answered(verge::timer_id time_out) {
        // Only one of the answer and the time-out ends the attempt: the result of cancel() decides.
        if (timers.cancel(time_out) != verge::cancel_result::cancelled) return;
        succeeded = true;
        done.release();
    }

    void timed_out() {
        if (attempts == 3) {
            done.release();
            return;
        }
        const auto pause = 1ms * (1 << attempts);
        timers.schedule_after(pause, [self = shared_from_this()] { self->send(); });
    }

    std::counting_semaphore<>& done;
    int attempts = 0;
    bool succeeded = false;
};

}  // namespace

int main() {
    constexpr int calls = 1000;
    std::counting_semaphore<> done(0);
    std::vector<std::shared_ptr<call>> all;
    for (int i = 0; i < calls; ++i) {
        all.push_back(std::make_shared<call>(done));
        all.back()->send();
    }
    for (int i = 0; i < calls; ++i)
        done.acquire();

    int succeeded = 0;
    int retried = 0;
    for (const auto& one : all) {
        if (one->succeeded) ++succeeded;
        if (one->attempts > 1) ++retried;
    }
    const auto stats = timers.stats();
    std::printf("%d calls: %d answered, %d tried again, %d given up\n", calls, succeeded, retried,
                calls - succeeded);
    std::printf(
        "timers: %llu scheduled, %llu cancelled, %llu fired; late by %.0f us at the median\n",
        static_cast<unsigned long long>(stats.scheduled),
        static_cast<unsigned long long>(stats.cancelled),
        static_cast<unsigned long long>(stats.fired),
        static_cast<double>(stats.lateness.percentile(50)) / 1e3);
    return succeeded > calls / 2 ? 0 : 1;
}
