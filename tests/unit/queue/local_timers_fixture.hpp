// unit/queue/local_timers_fixture.hpp -- timers in virtual time that write their names down.

#pragma once

#include <verge/queue/local_timers.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace verge {

using namespace std::chrono_literals;

constexpr time_point at(duration since_start) {
    return time_point(since_start);
}

// Runs a function when it is destroyed, wherever it was moved to before.
class at_end {
public:
    explicit at_end(std::function<void()> then)
        : then_(std::make_unique<std::function<void()>>(std::move(then))) {}
    ~at_end() {
        if (then_ != nullptr) (*then_)();
    }
    at_end(at_end&&) noexcept = default;
    at_end& operator=(at_end&&) = delete;
    at_end(const at_end&) = delete;
    at_end& operator=(const at_end&) = delete;

private:
    std::unique_ptr<std::function<void()>> then_;
};

// Timers that write their names down when they run.
class LocalTimers : public testing::Test {
protected:
    using names = std::vector<int>;

    void make(const local_timers::options& opts) { timers_.emplace(opts); }

    callback note(int name) {
        return [this, name] { ran_.push_back(name); };
    }
    // What ran since the last time it was asked.
    names ran() { return std::exchange(ran_, {}); }

    names run(duration now, std::size_t budget = no_budget) {
        const std::size_t count = timers_->run_due(at(now), budget);
        EXPECT_EQ(count, ran_.size());
        return ran();
    }

    std::optional<local_timers> timers_{std::in_place};
    names ran_;
};

}  // namespace verge
