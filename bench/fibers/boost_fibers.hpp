// bench/fibers/boost_fibers.hpp -- Boost.Fiber in the form of verge_fibers.hpp.
//
// Stacks are pooled, of the size that Verge's have, without guards: the pool has none.  One worker
// is a thread with the default algorithm; more are threads with work_stealing that may sleep, the
// fastest of what Boost.Fiber has: shared_work, or work_stealing that spins, took 1.5 to 6 times as
// long per spawn.  work_stealing can be set up once in a process, for one number of threads
// (boostorg/fiber#217), so a run on more than one worker is in_own_process().

#pragma once

#include "support/clock.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <boost/fiber/algo/work_stealing.hpp>
#include <boost/fiber/condition_variable.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/mutex.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>

namespace bench {

/// The pool, and a lock if workers share it: it has none of its own, and a stack goes back on the
/// worker where its fiber ended.
class boost_stacks {
public:
    using traits_type = boost::fibers::pooled_fixedsize_stack::traits_type;

    explicit boost_stacks(bool shared) : lock_(shared ? std::make_shared<spin_lock>() : nullptr) {}

    boost::context::stack_context allocate() {
        const std::unique_lock hold = locked();
        return pool_.allocate();
    }
    void deallocate(boost::context::stack_context& stack) noexcept {
        const std::unique_lock hold = locked();
        pool_.deallocate(stack);
    }

private:
    struct spin_lock {
        void lock() noexcept {
            // acquire: pairs with the release in unlock; relaxed: a test before it
            while (taken.exchange(true, std::memory_order_acquire)) {
                while (taken.load(std::memory_order_relaxed)) {
                }
            }
        }
        void unlock() noexcept { taken.store(false, std::memory_order_release); }
        std::atomic<bool> taken{false};  // written by the holder
    };
    [[nodiscard]] std::unique_lock<spin_lock> locked() const {
        return lock_ ? std::unique_lock(*lock_) : std::unique_lock<spin_lock>();
    }

    static constexpr std::size_t size = std::size_t{64} * 1024;
    static constexpr std::size_t first_block = 32;
    // The pool doubles its blocks.  With a limit, what it has in advance is a small share, and no
    // block is larger than what the kernel gives at once.
    static constexpr std::size_t largest_block = 1024;

    boost::fibers::pooled_fixedsize_stack pool_{size, first_block, largest_block};
    std::shared_ptr<spin_lock> lock_;
};

class boost_fibers {
public:
    using fiber = boost::fibers::fiber;

    template <class Inside, class Outside>
    static void run(std::size_t workers, Inside inside, Outside outside) {
        const std::size_t count = std::max<std::size_t>(workers, 1);
        boost::fibers::mutex mutex;
        boost::fibers::condition_variable ended;
        bool is_over = false;
        std::vector<std::jthread> threads;
        for (std::size_t i = 1; i < count; ++i) {
            threads.emplace_back([&] {
                steal_among(count);
                std::unique_lock lock(mutex);
                ended.wait(lock, [&] { return is_over; });
            });
        }
        threads.emplace_back([&] {
            if (count > 1) steal_among(count);
            {
                boost_fibers library(count > 1);
                library.spawn([&] { inside(library); }).join();
            }
            {
                const std::lock_guard hold(mutex);
                is_over = true;
            }
            ended.notify_all();
        });
        outside();
    }

    template <class F>
    fiber spawn(F f) {
        return fiber(std::allocator_arg, stacks_, std::move(f));
    }

    static void yield() { boost::this_fiber::yield(); }

    static bool sleep_until(std::int64_t ns) {
        boost::this_fiber::sleep_until(as_time_point(ns));
        return true;
    }

private:
    explicit boost_fibers(bool shared) : stacks_(shared) {}

    static void steal_among(std::size_t workers) {
        boost::fibers::use_scheduling_algorithm<boost::fibers::algo::work_stealing>(
            static_cast<std::uint32_t>(workers), true);
    }

    boost_stacks stacks_;
};

}  // namespace bench
