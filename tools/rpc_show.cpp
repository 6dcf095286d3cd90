// Simulated RPC calls with time-outs and retries on a timer thread, in real time.
//
// Each client thread sends calls at a steady rate.  A call arms a time-out of 200 ms; the "server"
// answers after a few milliseconds, and the answer cancels the time-out.  One call in 200 is lost:
// its time-out fires, and it is sent again after a pause, three times at most.

#include "rpc_show.hpp"

#include "demonstration.hpp"
#include <verge/driver/timer_thread.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using verge::duration;
using verge::time_point;

constexpr int client_count = 2;
constexpr int calls_a_second = 50'000;  // a client
constexpr duration time_out = 200ms;
constexpr int most_attempts = 3;

time_point now() {
    return verge::steady_source{}.now();
}

struct tally {
    std::atomic<std::uint64_t> sent{0};       // attempts; written by clients
    std::atomic<std::uint64_t> answered{0};   // of these; written by clients
    std::atomic<std::uint64_t> timed_out{0};  // of these; written by the timer thread
    std::atomic<std::uint64_t> retried{0};    // written by the timer thread
    std::atomic<std::uint64_t> given_up{0};   // calls; written by the timer thread
    std::atomic<std::uint64_t> early{0};      // written by the timer thread
};

class client {
public:
    client(verge::timer_thread& timers, tally& counts, unsigned seed)
        : timers_(timers), counts_(counts), random_(seed) {}

    // Sends and answers once a millisecond until `end`, then answers what is still on its way.
    void run(time_point end) {
        time_point step = now();
        while (step < end || !on_the_way_.empty() || waiting_for_retry() > 0) {
            step += 1ms;
            std::this_thread::sleep_until(step);
            if (step < end) {
                for (int i = 0; i < calls_a_second / 1000; ++i)
                    send(1);
            }
            for (const int attempt : take_inbox())
                send(attempt);
            for (const time_point t = now(); !on_the_way_.empty() && on_the_way_.top().at <= t;) {
                receive(on_the_way_.top());
                on_the_way_.pop();
            }
        }
    }

private:
    struct answer {
        time_point at;
        verge::timer_id time_out;
        bool operator<(const answer& other) const { return at > other.at; }
    };

    void send(int attempt) {
        const time_point due = now() + time_out;
        counts_.sent.fetch_add(1, std::memory_order_relaxed);
        pending_.fetch_add(1, std::memory_order_relaxed);
        const verge::timer_id id =
            timers_.schedule_at(due, [this, due, attempt] { on_time_out(due, attempt); });
        if (random_() % 200 == 0) return;  // lost
        const double latency = 5e6 * -std::log(std::uniform_real_distribution<>(1e-9, 1)(random_));
        on_the_way_.push({now() + duration(static_cast<std::int64_t>(latency)), id});
    }

    void receive(const answer& a) {
        // The answer or the time-out ends the attempt: cancel() says which.
        if (timers_.cancel(a.time_out) != verge::cancel_result::cancelled) return;
        counts_.answered.fetch_add(1, std::memory_order_relaxed);
        pending_.fetch_sub(1, std::memory_order_relaxed);
    }

    // On the timer thread.
    void on_time_out(time_point due, int attempt) {
        if (now() < due) counts_.early.fetch_add(1, std::memory_order_relaxed);
        counts_.timed_out.fetch_add(1, std::memory_order_relaxed);
        if (attempt == most_attempts) {
            counts_.given_up.fetch_add(1, std::memory_order_relaxed);
            pending_.fetch_sub(1, std::memory_order_relaxed);
            return;
        }
        counts_.retried.fetch_add(1, std::memory_order_relaxed);
        timers_.schedule_after(10ms * (1 << attempt), [this, attempt] {
            const std::lock_guard hold(mutex_);
            inbox_.push_back(attempt + 1);
        });
    }

    std::vector<int> take_inbox() {
        const std::lock_guard hold(mutex_);
        pending_.fetch_sub(inbox_.size(), std::memory_order_relaxed);  // send() counts them again
        return std::exchange(inbox_, {});
    }
    std::uint64_t waiting_for_retry() const { return pending_.load(std::memory_order_relaxed); }

    verge::timer_thread& timers_;
    tally& counts_;
    std::mt19937 random_;
    std::priority_queue<answer> on_the_way_;
    std::atomic<std::uint64_t> pending_{0};  // attempts without an end, and retries to come
    std::mutex mutex_;
    std::vector<int> inbox_;  // attempts to send again; under mutex_
};

double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One line that changes on a terminal; a line every five seconds anywhere else.
void show_line(double second, const tally& counts, const verge::timer_thread::statistics& stats,
               double cpu_share, bool on_terminal) {
    std::printf(
        "%s  %4.0f s   sent %11s   pending %7s   answered %11s   timed out %7s   "
        "late p50 %3.0f us  p99 %4.0f us   CPU %3.0f %%%s",
        on_terminal ? "\r" : "", second, grouped(counts.sent).c_str(),
        grouped(stats.pending).c_str(), grouped(counts.answered).c_str(),
        grouped(counts.timed_out).c_str(), static_cast<double>(stats.lateness.percentile(50)) / 1e3,
        static_cast<double>(stats.lateness.percentile(99)) / 1e3, cpu_share * 100,
        on_terminal ? "" : "\n");
    std::fflush(stdout);
}

void watch(time_point begin, time_point end, const tally& counts,
           const verge::timer_thread& timers) {
    const bool on_terminal = ::isatty(STDOUT_FILENO) == 1;
    const duration step = on_terminal ? duration(200ms) : duration(5s);
    double cpu = cpu_seconds();
    time_point last = begin;
    while (last < end) {
        std::this_thread::sleep_until(std::min(last + step, end));
        const time_point t = now();
        const double cpu_now = cpu_seconds();
        const double passed = std::chrono::duration<double>(t - last).count();
        show_line(std::chrono::duration<double>(t - begin).count(), counts, timers.stats(),
                  (cpu_now - cpu) / passed, on_terminal);
        cpu = cpu_now;
        last = t;
    }
    if (on_terminal) std::puts("");
}

void print_row(const char* name, std::uint64_t value, const char* remark) {
    std::printf("  %-16s %14s   %s\n", name, grouped(value).c_str(), remark);
}

int conclude(const tally& counts, const verge::timer_thread::statistics& stats) {
    std::puts("");
    print_row("attempts", counts.sent, "time-outs armed");
    print_row("answered", counts.answered, "time-out cancelled");
    print_row("timed out", counts.timed_out, "time-out fired");
    print_row("retried", counts.retried, "after a pause, by a timer too");
    print_row("given up", counts.given_up, "after three attempts");
    print_row("early", counts.early, "must be 0");
    std::puts("\n  late by         microseconds   (from the deadline to the callback)");
    for (const auto& [name, p] :
         {std::pair{"p50", 50.0}, {"p90", 90.0}, {"p99", 99.0}, {"p99.9", 99.9}, {"max", 100.0}}) {
        std::printf("  %-16s %12.1f\n", name,
                    static_cast<double>(stats.lateness.percentile(p)) / 1e3);
    }
    const bool whole = counts.sent == counts.answered + counts.timed_out && counts.early == 0 &&
                       stats.pending == 0;
    std::printf("\n  %s: attempts = answered + timed out, none early, none left\n",
                whole ? "checked" : "WRONG");
    return whole ? 0 : 1;
}

}  // namespace

int show_rpc(unsigned seconds) {
    std::printf(
        "Verge: time-outs for RPC calls\n\n"
        "  %d clients send %s calls a second each.  Every call arms a time-out of 200 ms on one\n"
        "  timer thread, and nearly every answer cancels it.  This takes %u seconds.\n\n",
        client_count, grouped(calls_a_second).c_str(), seconds);
    std::fflush(stdout);
    tally counts;
    verge::timer_thread timers;
    const time_point begin = now();
    const time_point end = begin + std::chrono::seconds(seconds);
    {
        std::vector<std::unique_ptr<client>> clients;
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < client_count; ++i) {
            clients.push_back(std::make_unique<client>(timers, counts, i + 1));
        }
        for (const auto& c : clients) {
            threads.emplace_back([&c, end] { c->run(end); });
        }
        watch(begin, end, counts, timers);
        for (std::thread& t : threads)
            t.join();
        timers.stop();  // before the clients go: their callbacks name them
    }
    return conclude(counts, timers.stats());
}
