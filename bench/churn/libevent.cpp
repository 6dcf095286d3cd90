// bench/churn/libevent.cpp -- `churn` on libevent's timers, a binary heap of pointers.
//
// All of it runs inside one callback of the loop, where libevent has the time cached and reads no
// clock, on a base without locks.

#include "churn/churn.hpp"

#include <memory>
#include <stdexcept>

#include <event2/event.h>
#include <event2/event_struct.h>

namespace {

class libevent_timers {
public:
    explicit libevent_timers(std::size_t n) : timers_(std::make_unique<event[]>(n)), count_(n) {
        event_config* config = event_config_new();
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        base_ = event_base_new_with_config(config);
        event_config_free(config);
        if (base_ == nullptr) throw std::runtime_error("event_base_new_with_config failed");
        for (std::size_t i = 0; i < n; ++i) {
            event_assign(&timers_[i], base_, -1, 0, ignore, nullptr);
        }
    }
    libevent_timers(const libevent_timers&) = delete;
    libevent_timers& operator=(const libevent_timers&) = delete;
    ~libevent_timers() {
        for (std::size_t i = 0; i < count_; ++i) {
            event_del(&timers_[i]);
        }
        event_base_free(base_);
    }

    void arm(std::size_t index, bench::tick delay) {
        const timeval after{.tv_sec = static_cast<time_t>(delay / 1000),
                            .tv_usec = static_cast<suseconds_t>(delay % 1000 * 1000)};
        event_add(&timers_[index], &after);
    }

    void cancel(std::size_t index) { event_del(&timers_[index]); }

    template <class Step>
    void run_in_loop(const Step& step) {
        const auto all_steps = [](evutil_socket_t, short, void* argument) {
            const Step& next = *static_cast<const Step*>(argument);
            while (next()) {
            }
        };
        void* argument = const_cast<Step*>(&step);
        event_base_once(base_, -1, EV_TIMEOUT, all_steps, argument, nullptr);
        event_base_loop(base_, EVLOOP_ONCE);
    }

    // libevent tells deadlines as times of day; inside the loop it also tells what it takes for
    // now.
    [[nodiscard]] bench::tick sum_of_deadlines() const {
        timeval now{};
        event_base_gettimeofday_cached(base_, &now);
        bench::tick sum = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            timeval due{}, delay{};
            if (event_pending(&timers_[i], EV_TIMEOUT, &due) == 0) continue;
            evutil_timersub(&due, &now, &delay);
            sum += static_cast<bench::tick>(delay.tv_sec) * 1000 +
                   static_cast<bench::tick>(delay.tv_usec) / 1000;
        }
        return sum;
    }

private:
    static void ignore(evutil_socket_t, short, void*) {}

    event_base* base_ = nullptr;
    std::unique_ptr<event[]> timers_;
    std::size_t count_;
};

const bench::add_peer registered{{.work = "churn",
                                  .name = "libevent",
                                  .run = bench::run_churn<libevent_timers>,
                                  .takes = bench::up_to_a_few_million}};

}  // namespace
