// unit/driver/timer_thread_fixture.hpp -- executors, and what a test wants to know of a timer
// thread.

#pragma once

#include "unit/driver/driver_fixture.hpp"
#include <verge/driver/scoped_timer.hpp>
#include <verge/driver/timer_thread.hpp>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace verge {

// Keeps what it is given until the test says what becomes of it.
class manual_executor {
public:
    timer_thread::executor run_on() {
        return [this](callback work) {
            const std::lock_guard hold(lock_);
            queue_.push_back(std::move(work));
        };
    }
    [[nodiscard]] std::size_t size() const {
        const std::lock_guard hold(lock_);
        return queue_.size();
    }
    // Whether it comes to hold that many.
    [[nodiscard]] bool gets(std::size_t count) const {
        return eventually([&] { return size() >= count; });
    }
    callback take() {
        const std::lock_guard hold(lock_);
        callback first = std::move(queue_.front());
        queue_.pop_front();
        return first;
    }
    void run_all() {
        while (size() > 0) {
            callback work = take();
            work();
        }
    }
    // Destroys what it holds without running it.
    void clear() {
        const std::deque<callback> doomed = [this] {
            const std::lock_guard hold(lock_);
            return std::exchange(queue_, {});
        }();
    }

private:
    mutable std::mutex lock_;
    std::deque<callback> queue_;
};

// Some threads that run what they are given, all of it, before the destructor returns.
class thread_pool {
public:
    explicit thread_pool(int threads) {
        for (int i = 0; i < threads; ++i)
            threads_.emplace_back([this] { work(); });
    }
    ~thread_pool() {
        {
            const std::lock_guard hold(lock_);
            ending_ = true;
            changed_.notify_all();
        }
        for (std::thread& thread : threads_)
            thread.join();
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    timer_thread::executor run_on() {
        return [this](callback work) {
            const std::lock_guard hold(lock_);
            queue_.push_back(std::move(work));
            changed_.notify_one();
        };
    }

private:
    void work() {
        std::unique_lock hold(lock_);
        for (;;) {
            changed_.wait(hold, [this] { return ending_ || !queue_.empty(); });
            if (queue_.empty()) return;
            callback next = std::move(queue_.front());
            queue_.pop_front();
            hold.unlock();
            next();
            next.reset();
            hold.lock();
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<callback> queue_;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

// A callback that is running, until it is told to end.
class gate {
public:
    callback wait_here() {
        return [this] {
            entered_.set();
            EXPECT_TRUE(opened_.wait());
        };
    }
    [[nodiscard]] bool entered() const { return entered_.wait(); }
    void open() { opened_.set(); }

private:
    occurrence entered_;
    occurrence opened_;
};

// The timer thread's number in /proc.  For timer threads that run callbacks themselves.
inline pid_t thread_of(timer_thread& timers) {
    std::atomic<pid_t> tid{0};
    timers.schedule_at(time_point{}, [&] { tid = ::gettid(); });
    EXPECT_TRUE(eventually([&] { return tid != 0; }));
    return tid;
}

inline bool same_sum(const timer_stats& stats) {
    return stats.scheduled == stats.cancelled + stats.fired + stats.dropped + stats.pending;
}

}  // namespace verge
