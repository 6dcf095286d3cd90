// bench/churn/asio.cpp -- `churn` on standalone Asio's steady_timer, inside one io_context.
//
// The fastest way by its documentation: no locks (ASIO_CONCURRENCY_HINT_UNSAFE), the concrete
// executor instead of any_io_executor, absolute deadlines, so that no clock is read, and all of it
// in handlers of the loop, where Asio recycles the memory of its operations.  A cancelled wait
// completes through the loop: that is part of its price.

#include "churn/churn.hpp"

#include <chrono>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace {

class asio_timers {
public:
    explicit asio_timers(std::size_t n) {
        timers_.reserve(n);
        for (std::size_t i = 0; i < n; ++i) {
            timers_.emplace_back(context_.get_executor());
        }
    }

    void arm(std::size_t index, bench::tick delay) {
        timers_[index].expires_at(present_ + std::chrono::milliseconds(delay));
        timers_[index].async_wait([](const asio::error_code&) {});
    }

    void cancel(std::size_t index) { timers_[index].cancel(); }

    template <class Step>
    void run_in_loop(const Step& step) {
        asio::post(context_, [this, &step] { run_steps(step); });
        context_.run();
    }

    // Takes the timers away, which also lets the loop end.
    [[nodiscard]] bench::tick sum_of_deadlines() {
        bench::tick sum = 0;
        for (timer& t : timers_) {
            const auto delay = t.expiry() - present_;
            const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(delay).count();
            sum += t.cancel() * static_cast<bench::tick>(ms);
        }
        return sum;
    }

private:
    using timer = asio::steady_timer::rebind_executor<asio::io_context::executor_type>::other;

    template <class Step>
    void run_steps(const Step& step) {
        if (step()) asio::post(context_, [this, &step] { run_steps(step); });
    }

    asio::io_context context_{ASIO_CONCURRENCY_HINT_UNSAFE};
    // Far enough ahead that nothing fires while the loop runs.
    std::chrono::steady_clock::time_point present_ =
        std::chrono::steady_clock::now() + std::chrono::hours(24);
    std::vector<timer> timers_;
};

const bench::add_peer registered{{.work = "churn",
                                  .name = "asio",
                                  .run = bench::run_churn<asio_timers>,
                                  .takes = bench::up_to_a_few_million}};

}  // namespace
