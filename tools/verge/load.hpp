// tools/verge/load.hpp -- simulated RPC clients: the load that `verge demo` and `verge serve` show.
//
// Each call arms a time-out.  The "server" answers after a random latency, a few calls it never
// answers; an answer cancels the call's time-out, and a call whose time-out fires is sent again
// after a pause that doubles each time, until it was sent `most_attempts` times.  A call that is
// sent again counts as another call, so that at the end  calls = answered + timed out.
//
//     verge::tool::load load({.engine = engine_kind::fiber, .rate = 100'000});
//     ...                                   // figures() at any time, from any thread
//     load.finish();                        // no new calls; every call on its way has its end
//     const std::string wrong = verge::tool::what_is_wrong(load.figures());   // "": all is well
//
// Thread safety: all members of `load`, from any thread, but for construction and destruction.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/base/histogram.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verge::tool {

/// What implements the time-outs of calls.
enum class engine_kind {
    thread,  // a callback on a timer_thread, calls made by threads
    fiber,   // a fiber a call, which waits for its answer with a time-out
    loop,    // a steady_timer of an io_context
};

/// "thread", "fiber", "loop".
[[nodiscard]] std::string_view name_of(engine_kind engine) noexcept;
[[nodiscard]] std::optional<engine_kind> engine_named(std::string_view name) noexcept;

struct load_options {
    engine_kind engine = engine_kind::thread;
    double rate = 200'000;  // calls a second, over all workers
    duration time_out = std::chrono::milliseconds(200);
    unsigned workers = 0;  // threads that make calls, or run fibers or the loop; 0: one a processor
    std::uint64_t seed = 1;  // of latencies and losses

    static constexpr double least_rate = 1;
    static constexpr double most_rate = 10'000'000;
    static constexpr duration least_time_out = std::chrono::milliseconds(1);
    static constexpr duration most_time_out = std::chrono::seconds(60);
    static constexpr unsigned most_workers = 256;
    static constexpr int most_attempts = 3;
};

/// What a load has done so far.  The first block is counted by the clients, the second reported by
/// the library: that they agree is the check.
struct load_figures {
    std::uint64_t calls = 0;  // sent, those sent again too
    std::uint64_t answered = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t retried = 0;   // of the calls: sent again
    std::uint64_t given_up = 0;  // of those timed out: not sent again
    std::uint64_t early = 0;     // of those timed out: before their time
    std::uint64_t on_their_way = 0;

    std::uint64_t fired = 0;      // timers, of all kinds: time-outs, answers, pauses
    std::uint64_t cancelled = 0;  // timers
    std::uint64_t pending = 0;    // timers

    histogram_snapshot lateness;      // nanoseconds, from a time-out's deadline to its callback
    std::vector<double> worker_busy;  // a worker each: share of the time since the figures before
};

/// What the figures of a finished load show to be wrong, in words; "" if nothing is.
[[nodiscard]] std::string what_is_wrong(const load_figures& figures);

class load {
public:
    /// Begins at once.  Throws std::invalid_argument if an option is out of its range.
    explicit load(const load_options& options);
    /// Ends at once; calls on their way are dropped.
    ~load();
    load(const load&) = delete;
    load& operator=(const load&) = delete;

    /// For the calls from now on.  Calls on their way keep what they have; those of an engine that
    /// is left come to their ends on it.  Throws std::invalid_argument as the constructor does.
    void set_rate(double calls_per_second);
    void set_time_out(duration time_out);
    void set_engine(engine_kind engine);

    /// As they are now.
    [[nodiscard]] load_options options() const;

    [[nodiscard]] load_figures figures() const;

    /// Sends no more new calls, and returns when every call has its end.
    void finish();
    /// The same, but no longer than until `deadline`.  Whether every call has its end.
    [[nodiscard]] bool finish_until(time_point deadline);

private:
    class impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace verge::tool
