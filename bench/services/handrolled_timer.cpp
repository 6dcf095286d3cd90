// bench/services/handrolled_timer.cpp -- a timer thread as competent people write it in an hour.

#include "services/handrolled_timer.hpp"

#include "support/clock.hpp"
#include "support/process.hpp"

#include <future>
#include <utility>

namespace bench {

handrolled_timer::handrolled_timer() {
    std::promise<int> started;
    thread_ = std::thread([this, &started] {
        started.set_value(this_thread_id());
        run(std::unique_lock(mutex_));
    });
    thread_id_ = started.get_future().get();
}

handrolled_timer::~handrolled_timer() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    earlier_.notify_one();
    thread_.join();
}

handrolled_timer::id handrolled_timer::schedule_at(std::int64_t deadline,
                                                   std::function<void()> callback) {
    std::uint32_t slot = 0;
    id made = 0;
    bool is_earliest = false;
    {
        const std::lock_guard lock(mutex_);
        if (free_slots_.empty()) {
            slot = static_cast<std::uint32_t>(slots_.size());
            slots_.emplace_back();
        } else {
            slot = free_slots_.back();
            free_slots_.pop_back();
        }
        slots_[slot].callback = std::move(callback);
        made = id{slots_[slot].generation} << 32 | slot;
        heap_.push_back({});
        rise(heap_.size() - 1, {deadline, slot});
        is_earliest = heap_.front().slot == slot;
    }
    if (is_earliest) earlier_.notify_one();
    return made;
}

bool handrolled_timer::cancel(id timer) {
    const auto slot = static_cast<std::uint32_t>(timer);
    const auto generation = static_cast<std::uint32_t>(timer >> 32);
    std::function<void()> dropped;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    if (slot >= slots_.size() || slots_[slot].generation != generation) return false;
    dropped = take(slots_[slot].position);
    return true;
}

void handrolled_timer::run(std::unique_lock<std::mutex> lock) {
    while (!stop_) {
        if (heap_.empty()) {
            earlier_.wait(lock);
        } else if (const std::int64_t deadline = heap_.front().deadline; deadline > now_ns()) {
            earlier_.wait_until(lock, as_time_point(deadline));
        } else {
            const std::function<void()> due = take(0);
            lock.unlock();
            due();
            lock.lock();
        }
    }
}

// Takes a timer out of the heap and frees its slot.
std::function<void()> handrolled_timer::take(std::size_t position) {
    const std::uint32_t slot = heap_[position].slot;
    const entry last = heap_.back();
    heap_.pop_back();
    if (position != heap_.size()) {
        if (position != 0 && last.deadline < heap_[(position - 1) / 2].deadline) {
            rise(position, last);
        } else {
            sink(position, last);
        }
    }
    ++slots_[slot].generation;
    free_slots_.push_back(slot);
    return std::exchange(slots_[slot].callback, nullptr);
}

void handrolled_timer::put(std::size_t position, const entry& e) {
    heap_[position] = e;
    slots_[e.slot].position = static_cast<std::uint32_t>(position);
}

void handrolled_timer::rise(std::size_t position, const entry& e) {
    while (position != 0) {
        const std::size_t parent = (position - 1) / 2;
        if (heap_[parent].deadline <= e.deadline) break;
        put(position, heap_[parent]);
        position = parent;
    }
    put(position, e);
}

void handrolled_timer::sink(std::size_t position, const entry& e) {
    for (;;) {
        std::size_t child = position * 2 + 1;
        if (child >= heap_.size()) break;
        const bool right = child + 1 < heap_.size();
        if (right && heap_[child + 1].deadline < heap_[child].deadline) ++child;
        if (heap_[child].deadline >= e.deadline) break;
        put(position, heap_[child]);
        position = child;
    }
    put(position, e);
}

}  // namespace bench
