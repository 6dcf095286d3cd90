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

}  // namespace

struct thread_pool::threads {
    std::mutex lock;
    std::vector<std::thread> all;  // under lock
    bool guarded = true;           // under lock: the pool itself counts as work
};

thread_pool::thread_pool()
    : thread_pool(std::max<std::size_t>(2, 2 * std::size_t{std::thread::hardware_concurrency()})) {}

thread_pool::thread_pool(std::size_t count)
    : loop_(make_service<detail::scheduler>(*this, detail::threading::safe)),
      threads_(std::make_unique<threads>()) {
    loop_.work_started();
    sigset_t all;
    sigset_t old;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &old);  // the threads inherit it: no signals for them
    try {
        for (std::size_t i = 0; i < count; ++i)
            threads_->all.emplace_back([this]() noexcept { loop_.run(no_limit, never); });
    } catch (...) {
        ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
        stop();
        join();
        throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
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
    for (std::thread& thread : threads_->all)
        thread.join();
    threads_->all.clear();
}

}  // namespace verge
