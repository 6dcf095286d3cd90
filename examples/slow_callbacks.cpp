// Callbacks that take long: run them elsewhere, so that they delay no other timer.
//
// On the timer thread itself callbacks run one after another.  With `run_on`, the timer thread only
// hands each one over; here to a pool of two threads, but an event loop plugs in the same way.

#include <verge/driver/timer_thread.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

class thread_pool {
public:
    explicit thread_pool(int threads) {
        for (int i = 0; i < threads; ++i)
            workers_.emplace_back([this] { work(); });
    }
    ~thread_pool() {
        {
            const std::lock_guard hold(mutex_);
            stopping_ = true;
        }
        changed_.notify_all();
        for (std::thread& worker : workers_)
            worker.join();
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    void submit(verge::callback task) {
        {
            const std::lock_guard hold(mutex_);
            tasks_.push_back(std::move(task));
        }
        changed_.notify_one();
    }

private:
    void work() {
        std::unique_lock hold(mutex_);
        for (;;) {
            changed_.wait(hold, [&] { return stopping_ || !tasks_.empty(); });
            if (tasks_.empty()) return;
            verge::callback task = std::move(tasks_.front());
            tasks_.pop_front();
            hold.unlock();
            task();
            task.reset();
            hold.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<verge::callback> tasks_;
    bool stopping_ = false;
    std::vector<std::thread> workers_;
};

// Schedules a callback that blocks until it is let go, then ten quick ones, and counts how many of
// those have run while the first still blocks.
int quick_ones_done(verge::timer_thread& timers, verge::duration patience) {
    std::mutex mutex;
    std::condition_variable changed;
    int done = 0;
    bool let_go = false;
    const auto now = verge::steady_source{}.now();
    timers.schedule_at(now, [&] {
        std::unique_lock hold(mutex);
        changed.wait(hold, [&] { return let_go; });
    });
    for (int i = 0; i < 10; ++i) {
        timers.schedule_at(now + 1ms, [&] {
            const std::lock_guard hold(mutex);
            if (!let_go) ++done;
            changed.notify_all();
        });
    }
    std::unique_lock hold(mutex);
    changed.wait_for(hold, patience, [&] { return done == 10; });
    const int result = done;
    let_go = true;
    changed.notify_all();
    hold.unlock();
    timers.stop();  // waits for what is running: nothing refers to these variables any more
    return result;
}

}  // namespace

int main() {
    verge::timer_thread plain;
    const int on_timer_thread = quick_ones_done(plain, 50ms);

    thread_pool pool(2);
    verge::timer_thread handing(
        {.run_on = [&pool](verge::callback f) { pool.submit(std::move(f)); }});
    const int on_pool = quick_ones_done(handing, 10s);

    std::printf("while one callback blocked, of 10 others ran:\n");
    std::printf("  on the timer thread   %d\n  handed to a pool      %d\n", on_timer_thread,
                on_pool);
    return on_pool == 10 && on_timer_thread == 0 ? 0 : 1;
}
