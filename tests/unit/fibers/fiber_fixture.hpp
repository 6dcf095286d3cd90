// unit/fibers/fiber_fixture.hpp -- what the tests of schedulers and fibers share.
//
// Fibers and threads of a test wait for each other by the library's own wait(), with a limit so
// generous that only a hang reaches it.

#pragma once

#include "unit/driver/driver_fixture.hpp"
#include <verge/fibers/fiber.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/sync/cancellation.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge::fibers {

using verge::at_end;
using verge::counted;
using verge::eventually;
using verge::has_sanitizer;
using verge::now;
using verge::patience;
using verge::detail::has_asan;
using verge::detail::has_tsan;
using namespace std::chrono_literals;

// g++ 12's ThreadSanitizer dies past 8,128 fibers at a time; clang's does not.
#ifdef __clang__
inline constexpr bool few_fibers = false;
#else
inline constexpr bool few_fibers = has_tsan;
#endif

using word_type = std::atomic<std::uint32_t>;

inline std::ostream& operator<<(std::ostream& out, wait_result result) {
    constexpr const char* names[] = {"notified", "changed", "timed_out", "interrupted", "stopped"};
    return out << names[static_cast<std::size_t>(result)];
}
inline std::ostream& operator<<(std::ostream& out, sleep_result result) {
    constexpr const char* names[] = {"elapsed", "interrupted", "stopped"};
    return out << names[static_cast<std::size_t>(result)];
}
inline std::ostream& operator<<(std::ostream& out, wait_kind kind) {
    constexpr const char* names[] = {"nothing", "sleep", "word",      "join", "descriptor",
                                     "helper",  "mutex", "condition", "stack"};
    return out << names[static_cast<std::size_t>(kind)];
}
inline std::ostream& operator<<(std::ostream& out, fiber_id id) {
    return out << id.value();
}

// Not inlined: a fiber may come back on another thread, and a compiler may keep what it knows.
[[gnu::noinline]] inline pid_t this_thread() {
    const pid_t tid = ::gettid();
    asm volatile("" ::: "memory");
    return tid;
}
[[gnu::noinline]] inline int& this_errno() {
    asm volatile("" ::: "memory");
    return errno;
}

// Something that happens once; for fibers and threads.
class door {
public:
    void open() {
        open_ = 1;
        static_cast<void>(notify_all(open_));
    }
    [[nodiscard]] bool is_open() const { return open_ == 1; }
    // False if it does not happen.
    [[nodiscard]] bool wait() const {
        const time_point limit = now() + patience;
        while (open_ == 0) {
            if (wait_uninterrupted(open_, 0, limit) == wait_result::timed_out) return false;
        }
        return true;
    }

private:
    word_type open_{0};
};

// A number that grows; for fibers and threads.
class tally {
public:
    void add(std::uint32_t by = 1) {
        count_ += by;
        static_cast<void>(notify_all(count_));
    }
    [[nodiscard]] std::uint32_t count() const { return count_; }
    // Whether it comes to that many.
    [[nodiscard]] bool reaches(std::uint32_t wanted) const {
        const time_point limit = now() + patience;
        for (std::uint32_t seen = count_; seen < wanted; seen = count_) {
            if (wait_uninterrupted(count_, seen, limit) == wait_result::timed_out) return false;
        }
        return true;
    }

private:
    word_type count_{0};
};

// Keeps a worker busy until the condition is true: no wait, no yield of the fiber.
template <class Condition>
bool spin_until(Condition&& condition) {
    for (int i = 0; i < 1000; ++i) {
        if (condition()) return true;
    }
    const time_point limit = now() + patience;
    while (!condition()) {
        if (now() > limit) return false;
        ::sched_yield();
    }
    return true;
}

// Made by a fiber on one of exactly two workers: from then on, until this is destroyed, the fiber
// runs on the other one.  Two more fibers take a worker each; the one that took another than ours
// wakes us, on that worker, and the other one keeps ours busy.
class on_the_other_worker {
public:
    on_the_other_worker() {
        const pid_t from = this_thread();
        const auto ferry = [this, from] {
            ++arrived_;
            EXPECT_TRUE(spin_until([&] { return arrived_ == 2; }));
            if (this_thread() == from) {
                EXPECT_TRUE(spin_until([&] { return over_.load(); }));
            } else {
                EXPECT_TRUE(spin_until([&] { return notify_one(asleep_) == 1; }));
            }
        };
        scheduler& here = *scheduler::current();
        one_ = here.spawn(ferry);
        two_ = here.spawn(ferry);
        EXPECT_EQ(wait_uninterrupted(asleep_, 0), wait_result::notified);
        EXPECT_NE(this_thread(), from);
    }
    ~on_the_other_worker() {
        over_ = true;
        one_.join();
        two_.join();
    }
    on_the_other_worker(const on_the_other_worker&) = delete;
    on_the_other_worker& operator=(const on_the_other_worker&) = delete;

private:
    word_type asleep_{0};
    std::atomic<int> arrived_{0};
    std::atomic<bool> over_{false};
    fiber<> one_;
    fiber<> two_;
};

inline scheduler::options workers(std::size_t count) {
    return {.min_workers = count, .max_workers = count};
}

// The threads of this process with such a name.
std::vector<pid_t> threads_named(const std::string& prefix);

}  // namespace verge::fibers
