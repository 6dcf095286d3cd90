// bench/post/libevent.cpp -- `post` on libevent: events that happen once, at once.

#include "post/post.hpp"

#include <memory>
#include <stdexcept>
#include <utility>

#include <event2/event.h>
#include <event2/thread.h>

namespace {

class libevent_loop {
public:
    libevent_loop() {
        evthread_use_pthreads();
        base_ = event_base_new();
        if (base_ == nullptr) throw std::runtime_error("event_base_new failed");
    }
    libevent_loop(const libevent_loop&) = delete;
    libevent_loop& operator=(const libevent_loop&) = delete;
    ~libevent_loop() { event_base_free(base_); }

    template <class F>
    void post(F&& f) {
        using function = std::decay_t<F>;
        const auto call = [](evutil_socket_t, short, void* argument) {
            const std::unique_ptr<function> own(static_cast<function*>(argument));
            (*own)();
        };
        const timeval at_once{};
        auto own = std::make_unique<function>(std::forward<F>(f));
        event_base_once(base_, -1, EV_TIMEOUT, call, own.release(), &at_once);
    }
    void run() { event_base_loop(base_, EVLOOP_NO_EXIT_ON_EMPTY); }
    void stop() { event_base_loopbreak(base_); }

private:
    event_base* base_ = nullptr;
};

const bench::add_peer registered{
    {.work = "post", .name = "libevent", .run = bench::run_post<libevent_loop>}};

}  // namespace
