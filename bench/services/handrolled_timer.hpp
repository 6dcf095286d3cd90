// bench/services/handrolled_timer.hpp -- a timer thread as competent people write it in an hour.
//
// One mutex, one condition variable, an indexed binary heap, so that
// cancel removes it at once.  The thread is notified only if the earliest deadline changed, and
// callbacks run without the lock.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace bench {

class handrolled_timer {
public:
    /// Names one timer, never reused: slot in the low half, generation in the high half.
    using id = std::uint64_t;

    handrolled_timer();
    handrolled_timer(const handrolled_timer&) = delete;
    handrolled_timer& operator=(const handrolled_timer&) = delete;
    ~handrolled_timer();

    /// `deadline` is in CLOCK_MONOTONIC nanoseconds.
    id schedule_at(std::int64_t deadline, std::function<void()> callback);

    /// True: it will not run.
    bool cancel(id timer);

    [[nodiscard]] int thread_id() const { return thread_id_; }

private:
    struct timer_slot {
        std::function<void()> callback;
        std::uint32_t generation = 0;
        std::uint32_t position = 0;  // in heap_
    };
    struct entry {
        std::int64_t deadline;
        std::uint32_t slot;
    };

    void run(std::unique_lock<std::mutex> lock);
    [[nodiscard]] std::function<void()> take(std::size_t position);
    void put(std::size_t position, const entry& e);
    void rise(std::size_t position, const entry& e);
    void sink(std::size_t position, const entry& e);

    std::mutex mutex_;  // guards everything below it
    std::condition_variable earlier_;
    bool stop_ = false;
    std::vector<timer_slot> slots_;
    std::vector<std::uint32_t> free_slots_;
    std::vector<entry> heap_;

    int thread_id_ = 0;  // written by the thread before the constructor returns
    std::thread thread_;
};

}  // namespace bench
