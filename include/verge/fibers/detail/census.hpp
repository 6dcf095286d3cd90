// verge/fibers/detail/census.hpp -- whether all fibers have ended, without a word that all threads
// write.
//
//     worker:   counts.spawn_one()  ...  another:  counts.finish_one()  ...  census.look(workers)
//     waiter:   census.close()  ...  census.wait(workers, deadline)
//
// Each worker counts the fibers that it spawned and those that finished on it, and writes its own
// counters only.  Threads that are not workers share one counter.  All fibers have ended when the
// sums are equal.
//
// Invariants
//   N1  A fiber is counted as spawned before it can run, and as finished after its last step.
//   N2  A thread that adds up reads all finished counters first, and then all spawned ones.  A
//       fiber that is among the finished is then among the spawned, and so are those that it has
//       spawned itself.  So if the sums are equal, every fiber whose spawner is counted is counted
//       as finished; and a spawner is a fiber, or an outside thread, which counts before it checks
//       closed().
//   N3  The worker of the last fiber checks the sums after it has counted that fiber.  Either it
//       finds the waiter, or the waiter finds all counted.
//
// Memory orders
//   finished is released and acquired: N2.  The outside counter is seq_cst, and so is closed_,
//   against a scheduler that closes and then adds up: one of the two sees the other.  closed_ does
//   the same with the lives of fibers: fiber_life.hpp, F5.  awaited_ is changed by
//   read-modify-writes on both sides, acquire and release: the later one sees what the earlier one
//   did before: N3.  A load could miss both.  changes_ is released and acquired: a thread that has
//   seen the last change sees its reason, and does not wait for another.
//   tests/model/census_model.cpp explores this source.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstdint>

namespace verge::fibers::detail {

/// The platform of a census.  The model tests supply their own.
struct census_platform {
    template <class T>
    using atomic = std::atomic<T>;
    static void wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                     time_point deadline);
    static void notify_all(const std::atomic<std::uint32_t>& word) noexcept;
    static bool has_come(time_point deadline) noexcept {
        return deadline != never && steady_source{}.now() >= deadline;
    }
};

template <class Platform>
class basic_census {
    template <class T>
    using atomic = typename Platform::template atomic<T>;

public:
    /// The counters of one worker.  Written by its thread.
    class part {
    public:
        void spawn_one() noexcept {
            // relaxed, twice: one writer needs no lock prefix; the spawner's end publishes it.
            spawned_.store(spawned_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        void finish_one() noexcept {
            // relaxed, and release: one writer; pairs with the acquire in all_over().
            finished_.store(finished_.load(std::memory_order_relaxed) + 1,
                            std::memory_order_release);
        }

        /// For statistics.
        [[nodiscard]] std::uint64_t spawned() const noexcept {
            return spawned_.load(std::memory_order_relaxed);  // relaxed: a number
        }
        [[nodiscard]] std::uint64_t finished() const noexcept {
            return finished_.load(std::memory_order_relaxed);  // relaxed: a number
        }

    private:
        friend class basic_census;
        atomic<std::uint64_t> spawned_{0};
        atomic<std::uint64_t> finished_{0};
    };

    /// A thread that is not a worker spawns one: to be called before it checks closed().
    void spawn_one_outside() noexcept {
        // seq_cst: before that check; pairs with the load in all_over().
        outside_.fetch_add(1, std::memory_order_seq_cst);
    }
    /// The spawn was refused, or failed.
    template <class Workers>
    void take_back_outside(const Workers& workers) noexcept {
        // relaxed: it publishes nothing, and look() has its own order.
        outside_.fetch_sub(1, std::memory_order_relaxed);
        look(workers);
    }
    /// Refuses more fibers: a thread that is about to spawn sees it, or is counted by a sum after
    /// it.
    void close() noexcept {
        closed_.store(true,
                      std::memory_order_seq_cst);  // seq_cst: before that; pairs with closed()
    }
    [[nodiscard]] bool closed() const noexcept {
        // seq_cst: after spawn_one_outside(), or fiber_life::begin(); pairs with close().
        return closed_.load(std::memory_order_seq_cst);
    }

    /// To show.
    [[nodiscard]] std::uint64_t spawned_outside() const noexcept {
        return outside_.load(std::memory_order_relaxed);  // relaxed: a number
    }

    /// Called by a worker that is idle, after it has counted: wakes the waiters, if all have ended.
    /// `workers` is a range of pointers to objects with a member `part counts`.
    template <class Workers>
    void look(const Workers& workers) noexcept {
        // acq_rel: pairs with the one in wait() (N3).
        if (awaited_.fetch_add(0, std::memory_order_acq_rel) == 0 || !all_over(workers)) return;
        // release: what was read here; pairs with the acquire in wait().
        changes_.fetch_add(1, std::memory_order_release);
        Platform::notify_all(changes_);
    }

    /// Waits until all have ended; false at the deadline.  What fibers wrote is visible then.
    /// Throws, in a fiber with a deadline, if the timer thread refuses a timer.
    template <class Workers>
    [[nodiscard]] bool wait(const Workers& workers, time_point deadline) {
        const awaiting scope(awaited_);
        for (;;) {
            // acquire: a caller that does not wait sees what was read before the change.
            const std::uint32_t seen = changes_.load(std::memory_order_acquire);
            if (all_over(workers)) return true;
            if (Platform::has_come(deadline)) return false;
            Platform::wait(changes_, seen, deadline);
        }
    }

private:
    class awaiting {
    public:
        explicit awaiting(atomic<std::uint32_t>& who) noexcept : who_(who) {
            // acquire: before the counters are read; pairs with look() (N3).
            who_.fetch_add(1, std::memory_order_acquire);
        }
        // relaxed: at most one wake-up too many.
        ~awaiting() { who_.fetch_sub(1, std::memory_order_relaxed); }
        awaiting(const awaiting&) = delete;
        awaiting& operator=(const awaiting&) = delete;

    private:
        atomic<std::uint32_t>& who_;
    };

    template <class Workers>
    [[nodiscard]] bool all_over(const Workers& workers) const noexcept {
        std::uint64_t finished = 0;
        std::uint64_t spawned = 0;
        for (const auto& w : workers) {
            // acquire: before the spawned (N2), and what the fibers wrote.
            finished += w->counts.finished_.load(std::memory_order_acquire);
        }
        for (const auto& w : workers) {
            // relaxed: those that belong to the finished are seen by the acquire above.
            spawned += w->counts.spawned_.load(std::memory_order_relaxed);
        }
        // seq_cst: after close(); pairs with spawn_one_outside().
        spawned += outside_.load(std::memory_order_seq_cst);
        return finished == spawned;
    }

    atomic<bool> closed_{false};        // written by close()
    atomic<std::uint64_t> outside_{0};  // written by threads that are not workers
    atomic<std::uint32_t> awaited_{0};  // written by waiters
    atomic<std::uint32_t> changes_{0};  // a word to wait on; written by look()
};

using census = basic_census<census_platform>;

}  // namespace verge::fibers::detail
