// tools/verge/clients.cpp -- how many calls are due, and the counts of calls that all engines
// share.

#include "clients.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

#include <pthread.h>

namespace verge::tool {

namespace {

constexpr double mean_latency = 5e6;  // nanoseconds
constexpr std::uint64_t one_lost_in = 200;
constexpr std::uint64_t one_lost_again_in = 4;

double seconds(duration d) noexcept {
    return std::chrono::duration<double>(d).count();
}

// The processor time of a thread; of one that has ended, the last value.
duration thread_time(clockid_t clock, duration before) noexcept {
    timespec t{};
    if (::clock_gettime(clock, &t) != 0) return before;
    return std::chrono::seconds(t.tv_sec) + duration(t.tv_nsec);
}

std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: only unique
}

}  // namespace

std::uint64_t throttle::most(time_point at, std::uint64_t ended, duration time_out) {
    const std::lock_guard hold(lock_);
    if (at - last_ >= interval && ended >= last_ended_) {
        // A machine that was busy with something else for a moment is not slow: the most of late
        // counts, and is forgotten in a tenth of a second or so.
        const double fresh = static_cast<double>(ended - last_ended_) / seconds(at - last_);
        ended_per_second_ = std::max(fresh, ended_per_second_ * 0.8);
        last_ = at;
        last_ended_ = ended;
    }
    // An answer takes 5 ms in the mean, and one call in 200 waits for the time-out.
    const double time = std::min(0.02, seconds(time_out)) + seconds(time_out) / 50;
    return always + static_cast<std::uint64_t>(ended_per_second_ * time);
}

std::uint64_t pacer::due(time_point at, double calls_per_second) noexcept {
    const duration passed = std::clamp(at - last_, duration::zero(), most_behind);
    last_ = std::max(last_, at);
    owed_ += seconds(passed) * calls_per_second;
    const double whole = std::floor(owed_);
    owed_ -= whole;
    return static_cast<std::uint64_t>(whole);
}

duration pacer::step(double calls_per_second) noexcept {
    using namespace std::chrono_literals;
    constexpr double worth_waking_for = 8;
    const duration wanted = duration(
        static_cast<duration::rep>(1e9 * std::min(1.0, worth_waking_for / calls_per_second)));
    return std::clamp<duration>(wanted, 1ms, 20ms);
}

std::uint64_t fate_source::bits() noexcept {
    // splitmix64: every seed gives another sequence, also one that differs in one bit.
    state_ += 0x9E37'79B9'7F4A'7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9U;
    z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBU;
    return z ^ (z >> 31);
}

fate fate_source::next(int attempt) noexcept {
    if (bits() % (attempt == 1 ? one_lost_in : one_lost_again_in) == 0)
        return {.lost = true, .latency = {}};
    // In (0, 1]: its logarithm is finite.
    const double part = static_cast<double>((bits() >> 11) + 1) * 0x1p-53;
    return {.lost = false,
            .latency = duration(static_cast<duration::rep>(-std::log(part) * mean_latency))};
}

tally::tally(unsigned workers, unsigned others, std::uint64_t seed)
    : number_(next_number()),
      workers_(workers),
      threads_(workers + others),
      last_(now()),
      throttle_(last_) {
    for (std::size_t i = 0; i < threads_.size(); ++i) {
        threads_[i].counts.fates = fate_source(seed * 1024 + i);
    }
}

// Not inlined: a fiber may resume on another thread after a wait, and the compiler must not keep
// the address of the thread's variable over that.
[[gnu::noinline]] client_counts& tally::own(bool worker) noexcept {
    struct cache {
        std::uint64_t number = 0;
        client_counts* counts = nullptr;
    };
    static thread_local cache own_cache;
    if (own_cache.number == number_) [[likely]]
        return *own_cache.counts;
    const std::size_t index = used_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a number
    if (index >= threads_.size()) std::terminate();  // an engine with more threads than it said
    thread_counts& mine = threads_[index];
    if (worker && ::pthread_getcpuclockid(::pthread_self(), &mine.clock) == 0) {
        // release: pairs with the acquire in worker_busy(), which reads the clock.
        mine.worker.store(true, std::memory_order_release);
    }
    own_cache = {number_, &mine.counts};
    return mine.counts;
}

std::uint64_t tally::total(counter client_counts::*which) const noexcept {
    std::uint64_t sum = 0;
    for (const thread_counts& each : threads_)
        sum += (each.counts.*which).value();
    return sum;
}

std::uint64_t tally::open() const noexcept {
    // Ends first: if the end of a call is seen, so is its beginning.
    const std::uint64_t over = total(&client_counts::answered) + total(&client_counts::given_up);
    return total(&client_counts::begun) - over;
}

std::uint64_t tally::room(duration time_out) {
    const std::uint64_t ended = total(&client_counts::answered) + total(&client_counts::timed_out);
    const std::uint64_t sent = total(&client_counts::begun) + total(&client_counts::retried);
    const std::uint64_t most = throttle_.most(now(), ended, time_out);
    return sent - ended < most ? most - (sent - ended) : 0;
}

void tally::add_to(load_figures& sum) const {
    // In the order of their dependence, as in open(): an end, a time-out, a beginning.
    const std::uint64_t answered = total(&client_counts::answered);
    const std::uint64_t given_up = total(&client_counts::given_up);
    const std::uint64_t early = total(&client_counts::early);
    const std::uint64_t timed_out = total(&client_counts::timed_out);
    const std::uint64_t retried = total(&client_counts::retried);
    const std::uint64_t calls = total(&client_counts::begun) + retried;
    sum.calls += calls;
    sum.answered += answered;
    sum.timed_out += timed_out;
    sum.retried += retried;
    sum.given_up += given_up;
    sum.early += early;
    sum.on_their_way += calls - answered - timed_out;
    for (const thread_counts& each : threads_)
        sum.lateness.merge(each.counts.lateness.snapshot());
}

std::vector<double> tally::worker_busy() {
    const time_point at = now();
    const bool measure = at - last_ >= least_interval;
    const double passed = seconds(at - last_);
    std::vector<double> busy;
    for (thread_counts& each : threads_) {
        // acquire: pairs with the release in own().
        if (!each.worker.load(std::memory_order_acquire)) continue;
        if (measure) {
            const duration time = thread_time(each.clock, each.last_time);
            each.busy = std::clamp(seconds(time - each.last_time) / passed, 0.0, 1.0);
            each.last_time = time;
        }
        busy.push_back(each.busy);
    }
    if (measure) last_ = at;
    busy.resize(workers_);  // a worker that has had nothing to do yet
    return busy;
}

}  // namespace verge::tool
