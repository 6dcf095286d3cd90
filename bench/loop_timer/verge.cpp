// bench/loop_timer/verge.cpp -- `loop-timer` on Verge's event loop.

#include "loop_timer/loop_timer.hpp"
#include "services/verge_loop_service.hpp"
#include <verge/io/post.hpp>

namespace {

class verge_loop {
    using timer = verge::steady_timer::rebind_executor<verge::io_context::executor_type>::other;

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
        s.object->async_wait([f = s.f](std::error_code error) {
            if (!error) f();
        });
    }
    template <class F>
    bool cancel(slot<F>& s) {
        return s.object->cancel() != 0;
    }

    template <class Step>
    void run_in_loop(const Step& step) {
        verge::post(context_, [this, &step] { run_steps(step); });
        context_.run();
    }

private:
    template <class Step>
    void run_steps(const Step& step) {
        if (step()) verge::post(context_, [this, &step] { run_steps(step); });
    }

    verge::io_context context_{1};
};

const bench::add_peer registered{
    {.work = "loop-timer",
     .name = "verge",
     .run = bench::run_loop_timer<verge_loop, bench::verge_loop_service>}};

}  // namespace
