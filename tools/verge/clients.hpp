// tools/verge/clients.hpp -- what the clients of all engines share: pace, fate of a call, counts.

#pragma once

#include "load.hpp"
#include <verge/base/clock.hpp>
#include <verge/base/histogram.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <time.h>

namespace verge::tool {

[[nodiscard]] inline time_point now() noexcept {
    return steady_source{}.now();
}

/// What can change while an engine runs.  Written by load, read by the clients at each step.
struct live_settings {
    std::atomic<double> rate{0};
    std::atomic<duration::rep> time_out{0};

    [[nodiscard]] double calls_per_second() const noexcept {
        return rate.load(std::memory_order_relaxed);  // relaxed: a number; it orders nothing
    }
    [[nodiscard]] duration time_out_now() const noexcept {
        return duration(time_out.load(std::memory_order_relaxed));  // relaxed: as above
    }
};

/// How long the next attempt waits after the time-out of attempt 1, 2 ...
[[nodiscard]] constexpr duration pause_after(int attempt) noexcept {
    return std::chrono::milliseconds(10) * (1 << (attempt - 1));
}

/// Answers may come this much later than drawn, so that one wake-up serves several.  Time-outs and
/// pauses are exact.
inline constexpr duration answer_slack = std::chrono::microseconds(250);

/// Says how many calls may be on their way.
///
/// By Little's law as many are as end in the mean time of a call.  A few times that is allowed, of
/// the ends that were seen, but no more than end within a time-out: a machine that does not keep up
/// gets fewer calls, instead of a backlog in which every one of them times out.
///
/// Thread safety: all of it.
class throttle {
public:
    explicit throttle(time_point begin) noexcept : last_(begin) {}

    /// Called periodically with the number of calls that have ended so far.
    [[nodiscard]] std::uint64_t most(time_point at, std::uint64_t ended, duration time_out);

    static constexpr std::uint64_t always = 16;
    static constexpr duration interval = std::chrono::milliseconds(20);

private:
    std::mutex lock_;
    time_point last_;
    std::uint64_t last_ended_ = 0;
    double ended_per_second_ = 0;  // the most of late
};

/// Turns a rate into calls.  A value; one a client.
class pacer {
public:
    explicit pacer(time_point begin) noexcept : last_(begin) {}

    /// How many calls are due since the last call of this function.  What is further behind than
    /// most_behind is forgiven: a client that cannot keep its rate makes fewer calls.
    [[nodiscard]] std::uint64_t due(time_point at, double calls_per_second) noexcept;

    /// How long to sleep between two checks: a millisecond, or longer if few calls are due.
    [[nodiscard]] static duration step(double calls_per_second) noexcept;

    static constexpr duration most_behind = std::chrono::milliseconds(50);

private:
    time_point last_;
    double owed_ = 0;  // a part of a call
};

/// What becomes of a call once it is sent.
struct fate {
    bool lost;         // it is never answered
    duration latency;  // else: it is answered after
};

/// Draws fates: one call in 200 is lost, and one in 4 of those that are sent again: a server that
/// did not answer once may be down.  The others are answered after 5 ms in the mean.
class fate_source {
public:
    explicit fate_source(std::uint64_t seed) noexcept : state_(seed) {}
    [[nodiscard]] fate next(int attempt) noexcept;

private:
    [[nodiscard]] std::uint64_t bits() noexcept;
    std::uint64_t state_;
};

/// A number that one thread counts and others read.
class counter {
public:
    void add() noexcept {
        // relaxed load: this thread alone writes.  release: a thread that reads the end of a call
        // with acquire reads its beginning too, which was counted before.
        value_.store(value_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_.load(std::memory_order_acquire);  // acquire: pairs with the release in add()
    }

private:
    std::atomic<std::uint64_t> value_{0};
};

/// What one thread of an engine counts.  `begun` are calls that are sent for the first time, so
/// that  calls = begun + retried,  and a call has ended when it is answered or given up.
struct alignas(64) client_counts {
    counter begun, retried, answered, timed_out, given_up, early;
    counter armed, fired, cancelled;  // timers, by engines whose library part has no stats of them
    histogram lateness;
    fate_source fates{0};

    /// A time-out has fired: is it early, how late is it.
    void count_time_out(time_point deadline) noexcept {
        const duration late = now() - deadline;
        if (late < duration::zero()) early.add();
        lateness.record(late < duration::zero() ? 0 : static_cast<std::uint64_t>(late.count()));
        timed_out.add();
    }
};

/// The counts of all threads of an engine.
///
/// Thread safety: all members from any thread, but worker_busy(), which is called by one at a time.
class tally {
public:
    /// Room for this many worker threads, and for `others`, such as a timer thread.
    tally(unsigned workers, unsigned others, std::uint64_t seed);

    /// The calling thread's own counts.  A thread counts for one tally, until it counts for the
    /// next.  A fiber must ask again after each wait.
    [[nodiscard]] client_counts& worker() noexcept { return own(true); }
    [[nodiscard]] client_counts& other() noexcept { return own(false); }

    /// Calls that are neither answered nor given up.  Once no call is begun any more, 0 is final.
    [[nodiscard]] std::uint64_t open() const noexcept;

    /// How many calls may begin now, by the throttle.
    [[nodiscard]] std::uint64_t room(duration time_out);

    /// The clients' part of the figures, added to `sum`.
    void add_to(load_figures& sum) const;

    /// The sum of one counter.
    [[nodiscard]] std::uint64_t total(counter client_counts::*which) const noexcept;

    /// A worker each: the share of a processor since this was called last, at least
    /// least_interval ago; else what it was then.
    [[nodiscard]] std::vector<double> worker_busy();

    static constexpr duration least_interval = std::chrono::milliseconds(50);

private:
    struct thread_counts {
        client_counts counts;
        std::atomic<bool> worker{false};  // written by its thread, once clock is set
        clockid_t clock{};                // of the thread's processor time
        duration last_time{};             // written by worker_busy()
        double busy = 0;
    };

    client_counts& own(bool worker) noexcept;

    const std::uint64_t number_;  // no other tally of the process has it
    const unsigned workers_;
    std::vector<thread_counts> threads_;
    std::atomic<std::size_t> used_{0};  // of threads_; written by own()
    time_point last_;                   // written by worker_busy()
    throttle throttle_;
};

}  // namespace verge::tool
