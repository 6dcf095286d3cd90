// bench/churn/libuv.cpp -- `churn` on libuv's timers, a binary heap of linked nodes.
//
// uv_timer_start takes the time that the loop has cached, so no clock is read.

#include "churn/churn.hpp"

#include <memory>
#include <stdexcept>

#include <uv.h>

namespace {

class libuv_timers {
public:
    explicit libuv_timers(std::size_t n) : timers_(std::make_unique<uv_timer_t[]>(n)), count_(n) {
        if (uv_loop_init(&loop_) != 0) throw std::runtime_error("uv_loop_init failed");
        for (std::size_t i = 0; i < n; ++i) {
            uv_timer_init(&loop_, &timers_[i]);
        }
    }
    libuv_timers(const libuv_timers&) = delete;
    libuv_timers& operator=(const libuv_timers&) = delete;
    ~libuv_timers() {
        for (std::size_t i = 0; i < count_; ++i) {
            uv_close(reinterpret_cast<uv_handle_t*>(&timers_[i]), nullptr);
        }
        uv_run(&loop_, UV_RUN_DEFAULT);
        uv_loop_close(&loop_);
    }

    void arm(std::size_t index, bench::tick delay) {
        uv_timer_start(&timers_[index], ignore, delay, 0);
    }

    void cancel(std::size_t index) { uv_timer_stop(&timers_[index]); }

    [[nodiscard]] bench::tick sum_of_deadlines() const {
        bench::tick sum = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            const bool armed = uv_is_active(reinterpret_cast<uv_handle_t*>(&timers_[i])) != 0;
            if (armed) sum += uv_timer_get_due_in(&timers_[i]);
        }
        return sum;
    }

private:
    static void ignore(uv_timer_t*) {}

    uv_loop_t loop_{};
    std::unique_ptr<uv_timer_t[]> timers_;
    std::size_t count_;
};

const bench::add_peer registered{{.work = "churn",
                                  .name = "libuv",
                                  .run = bench::run_churn<libuv_timers>,
                                  .takes = bench::up_to_a_few_million}};

}  // namespace
