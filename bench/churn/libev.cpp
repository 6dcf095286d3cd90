// bench/churn/libev.cpp -- `churn` on libev's timers, a 4-ary heap with cached deadlines.
//
// ev_timer_start takes the time that the loop has cached, so no clock is read.

#include "churn/churn.hpp"

#include <cmath>
#include <memory>
#include <stdexcept>

#include <ev.h>

namespace {

class libev_timers {
public:
    explicit libev_timers(std::size_t n)
        : loop_(ev_loop_new(EVFLAG_AUTO)), timers_(std::make_unique<ev_timer[]>(n)), count_(n) {
        if (loop_ == nullptr) throw std::runtime_error("ev_loop_new failed");
        for (std::size_t i = 0; i < n; ++i) {
            ev_timer_init(&timers_[i], ignore, 0., 0.);
        }
    }
    libev_timers(const libev_timers&) = delete;
    libev_timers& operator=(const libev_timers&) = delete;
    ~libev_timers() { ev_loop_destroy(loop_); }

    void arm(std::size_t index, bench::tick delay) {
        ev_timer_set(&timers_[index], static_cast<double>(delay) * 1e-3, 0.);
        ev_timer_start(loop_, &timers_[index]);
    }

    void cancel(std::size_t index) { ev_timer_stop(loop_, &timers_[index]); }

    [[nodiscard]] bench::tick sum_of_deadlines() const {
        bench::tick sum = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            if (!ev_is_active(&timers_[i])) continue;
            const double delay = ev_timer_remaining(loop_, &timers_[i]) * 1e3;
            sum += static_cast<bench::tick>(std::llround(delay));
        }
        return sum;
    }

private:
    static void ignore(struct ev_loop*, ev_timer*, int) {}

    struct ev_loop* loop_;
    std::unique_ptr<ev_timer[]> timers_;
    std::size_t count_;
};

const bench::add_peer registered{
    {.work = "churn", .name = "libev", .run = bench::run_churn<libev_timers>}};

}  // namespace
