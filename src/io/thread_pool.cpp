// src/io/thread_pool.cpp -- starts and joins the threads of a pool.

#include <verge/base/detail/os_thread.hpp>
#include <verge/io/thread_pool.hpp>

#include <algorithm>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>
#include <signal.h>

namespace verge {

namespace {

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

void* thread_main(void* loop) noexcept {
    static_cast<detail::io::loop_core*>(loop)->run(no_limit, never);
    return nullptr;
}

}  // namespace

struct thread_pool::threads {
    detail::thread_mutex lock;
    std::vector<detail::os_thread> all;  // under lock
    bool guarded = true;                 // under lock: the pool itself counts as work
};

thread_pool::thread_pool() : thread_pool(std::max<std::size_t>(2, 2 * detail::processor_count())) {}

thread_pool::thread_pool(std::size_t count)
    : loop_(make_service<detail::io::loop_core>(*this, detail::io::threading::safe)),
      threads_(std::make_unique<threads>()) {
    loop_.work_started();
    try {
        threads_->all.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            threads_->all.emplace_back(&thread_main, &loop_,
                                       detail::os_thread_options{.name = "verge-pool"});
    } catch (...) {
        stop();
        join();
        throw;
    }
}

thread_pool::~thread_pool() {
    stop();
    join();
    shutdown();
}

void thread_pool::attach() {
    loop_.run(no_limit, never);
}

void thread_pool::join() noexcept {
    const std::lock_guard hold(threads_->lock);
    if (std::exchange(threads_->guarded, false)) loop_.work_finished();
    for (detail::os_thread& thread : threads_->all)
        thread.join();
    threads_->all.clear();
}

}  // namespace verge
