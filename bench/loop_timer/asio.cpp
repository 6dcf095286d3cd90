// bench/loop_timer/asio.cpp -- `loop-timer` on standalone Asio.

#include "loop_timer/loop_timer.hpp"
#include "services/asio_service.hpp"

#include <asio/post.hpp>

namespace {

class asio_loop {
    using timer = asio::steady_timer::rebind_executor<asio::io_context::executor_type>::other;

public:
    template <class F>
    struct slot {
        std::optional<timer> object;
        F f{};
    };

    template <class F>
    void prepare(slot<F>& s, F f) {
        s.object.emplace(context_.get_executor());
        s.f = f;
    }
    template <class F>
    void schedule_after(slot<F>& s, std::int64_t delay) {
        s.object->expires_after(std::chrono::nanoseconds(delay));
        s.object->async_wait([f = s.f](const asio::error_code& error) {
            if (!error) f();
        });
    }
    template <class F>
    bool cancel(slot<F>& s) {
        return s.object->cancel() != 0;
    }

    template <class Step>
    void run_in_loop(const Step& step) {
        asio::post(context_, [this, &step] { run_steps(step); });
        context_.run();
    }

private:
    template <class Step>
    void run_steps(const Step& step) {
        if (step()) asio::post(context_, [this, &step] { run_steps(step); });
    }

    asio::io_context context_{1};
};

const bench::add_peer registered{{.work = "loop-timer",
                                  .name = "asio",
                                  .run = bench::run_loop_timer<asio_loop, bench::asio_service>}};

}  // namespace
