// bench/services/call_inside.hpp -- a call into a loop's thread, for loops that are not
// thread-safe.

#pragma once

#include <functional>
#include <future>
#include <utility>

namespace bench {

/// A function that another thread calls once.
class call_inside {
public:
    /// `notify` makes the other thread call answer().  Returns when it has.
    void call(std::function<void()> f, const std::function<void()>& notify) {
        f_ = std::move(f);
        done_ = std::promise<void>();
        std::future<void> done = done_.get_future();
        notify();
        done.get();
    }

    void answer() {
        if (!f_) return;  // loops may notify once too often
        std::exchange(f_, nullptr)();
        done_.set_value();
    }

private:
    std::function<void()> f_;  // written by the caller, then by the loop's thread
    std::promise<void> done_;
};

}  // namespace bench
