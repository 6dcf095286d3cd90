// What the tests of the synchronisation types share: how to start something that runs, and how to
// know that it waits.
//
// A test is written once, over a Runner, and runs with each of sync_runners.  A Runner is a type
//
//     struct runner {
//         runner(F f)                 starts f: a thread, a fiber
//         void join()                 until it has returned
//         static void yield()         lets others run, from inside a runner or from the test
//     };

#pragma once

#include "support/eventually.hpp"
#include "support/mortal.hpp"
#include <verge/base/clock.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/sync/cancellation.hpp>
#include <verge/sync/detail/waiter.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace verge::fibers {

using namespace std::chrono_literals;

class thread_runner {
public:
    template <class F>
    explicit thread_runner(F f) : thread_(std::move(f)) {}
    void join() { thread_.join(); }
    static void yield() { std::this_thread::yield(); }

private:
    std::thread thread_;
};

/// On two workers, whatever the machine has.
class fiber_runner {
public:
    template <class F>
    explicit fiber_runner(F f) : fiber_(fibers().spawn(std::move(f))) {}
    void join() { fiber_.join(); }
    static void yield() { this_fiber::yield(); }

private:
    static scheduler& fibers() {
        static scheduler& all = *new scheduler({.min_workers = 2, .max_workers = 2});
        return all;
    }

    fiber<> fiber_;
};

using sync_runners = ::testing::Types<thread_runner, fiber_runner>;

inline time_point now() {
    return steady_source{}.now();
}

constexpr time_point past{};  // the machine has been up for longer

// The word that the waiters of an object wait on: its first member.
template <class T>
const std::atomic<std::uint32_t>& word_of(const T& object) {
    static_assert(std::is_standard_layout_v<T>);
    return reinterpret_cast<const std::atomic<std::uint32_t>&>(object);
}

inline std::size_t waiters_on(const std::atomic<std::uint32_t>& word) {
    return verge::detail::sync::waiters_of(word);
}

// Some that run at once.  Joins them at the end.
template <class Runner>
class team {
public:
    team() = default;
    team(const team&) = delete;
    team& operator=(const team&) = delete;
    ~team() { join(); }

    // Starts one and waits until it runs; returns who it is, to be interrupted, until it returns.
    template <class F>
    verge::detail::sync::waiter& start(F f) {
        auto who = std::make_shared<std::atomic<verge::detail::sync::waiter*>>(nullptr);
        running_.push_back(std::make_unique<Runner>([who, f = std::move(f)]() mutable {
            who->store(&verge::detail::sync::current());
            f();
        }));
        while (who->load() == nullptr)
            Runner::yield();
        return *who->load();
    }

    // Starts n that begin together.  f is called with 0, 1 ...
    template <class F>
    void start_together(int n, F f) {
        auto missing = std::make_shared<std::atomic<int>>(n);
        for (int i = 0; i < n; ++i) {
            running_.push_back(std::make_unique<Runner>([missing, i, f]() mutable {
                missing->fetch_sub(1);
                while (missing->load() > 0)
                    Runner::yield();
                f(i);
            }));
        }
    }

    // Starts one and waits until it is the n-th that waits on the object's word.
    template <class T, class F>
    verge::detail::sync::waiter& start_waiting(const T& on, std::size_t n, F f) {
        verge::detail::sync::waiter& who = start(std::move(f));
        wait_for_waiters(word_of(on), n);
        return who;
    }

    static void wait_for_waiters(const std::atomic<std::uint32_t>& word, std::size_t n) {
        while (waiters_on(word) != n)
            Runner::yield();
    }

    void join() {
        for (auto& one : running_)
            one->join();
        running_.clear();
    }

private:
    std::vector<std::unique_ptr<Runner>> running_;
};

// Declares a suite whose tests run with each runner, which they call TypeParam.
#define VERGE_SYNC_SUITE(suite)              \
    template <class Runner>                  \
    class suite : public ::testing::Test {}; \
    TYPED_TEST_SUITE(suite, sync_runners)

// Not atomic: two at once lose counts, and TSan reports it.
struct plain_counter {
    long value = 0;
    void count() { value = value + 1; }
};

inline void interrupt(verge::detail::sync::waiter& who) {
    who.request(verge::detail::sync::waiter::interrupt_request);
}

}  // namespace verge::fibers
