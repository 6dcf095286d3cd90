// verge/fibers/detail/fiber_life.hpp -- the references to a fiber, and the wait for its end.
//
//     spawner:   life.begin(joinable)    ...    its handle:  life.wait(deadline)  ...  life.drop()
//     worker:    life.finish()  ...  life.drop()
//
// It is part of a record that is reused, so a thread that finds the record by an id, or in the
// pool, must take a reference first: life.try_add().
//
// States of refs_: the number of references.  0: the record is free, or about to be.  A life begins
// with the reference of the fiber itself, held until it has ended, and that of its handle.
//
// States of end_: bits, each set at most once per life.
//   awaited   there are waiters for the end    finished  it has left its stack
//   detached  it will not be joined            failed    an exception left its function
//
// Invariants
//   F1  Only a thread with a reference accesses a fiber.  Only begin() changes refs_ from 0.
//   F2  The thread that drops the last reference runs after everything that others did with the
//       fiber, and is its only user.
//   F3  A waiter sets `awaited` before it checks `finished`; the worker sets `finished`, then
//       checks `awaited`.  All are read-modify-writes of one word: the later one sees the earlier
//       one.
//   F4  Of fail() and detach(), the second one reports the error.
//   F5  A scheduler that stops requests a stop of every fiber: it closes (census::close()), then
//       visits every record; a spawner begins the life, then checks whether the scheduler is
//       closed.
//
// Memory orders
//   finish() releases what the fiber wrote; a thread that finds it finished acquires that, also
//   past the bits that others have set since.  fail() releases the exception, detach() acquires it;
//   in the other order nothing is passed on.  A drop releases, and the last one acquires (F2).
//   begin() releases the record, and the first load of try_add() acquires it; both are seq_cst, for
//   F5.  tests/model/fiber_life_model.cpp explores this source.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstdint>

namespace verge::fibers::detail {

/// The platform of a life.  The model tests supply their own.
struct life_platform {
    template <class T>
    using atomic = std::atomic<T>;
    /// False at the deadline.
    static bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                     time_point deadline);
    static void notify_all(const std::atomic<std::uint32_t>& word) noexcept;
};

template <class Platform = life_platform>
class basic_fiber_life {
public:
    // ---- references -----------------------------------------------------------------------------

    /// The record can be found from now on.  By the spawner, which checks after this whether the
    /// scheduler is closed (F5).
    void begin(bool joinable) noexcept {
        // relaxed: published by the next store.
        end_.store(joinable ? 0 : detached, std::memory_order_relaxed);
        // seq_cst: before that check; pairs with try_add().
        refs_.store(joinable ? 2 : 1, std::memory_order_seq_cst);
    }

    /// Adds a reference.  By a thread that has one.
    void add() noexcept {
        refs_.fetch_add(1, std::memory_order_relaxed);  // relaxed: it is not the last one
    }

    /// The same, by a thread that has none.  False if there is none at all.  The record must not be
    /// reused for another fiber meanwhile: call it under the pool's lock.
    [[nodiscard]] bool try_add() noexcept {
        // seq_cst: after census::close(), and acquires the record; pairs with begin().
        std::uint32_t refs = refs_.load(std::memory_order_seq_cst);
        do {
            if (refs == 0) return false;
            // relaxed: the load has seen this life's begin().
        } while (!refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed,
                                              std::memory_order_relaxed));
        return true;
    }

    /// Drops a reference.  True: it was the last one, and the caller owns the record.
    [[nodiscard]] bool drop() noexcept {
        // acq_rel: releases what was done with the fiber; the last one acquires it (F2).
        return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }

    // ---- its end --------------------------------------------------------------------------------

    /// The fiber has left its stack.  By its worker, which still has the fiber's reference.
    void finish() noexcept {
        // release: what the fiber wrote; pairs with done() and wait().
        if ((end_.fetch_or(finished, std::memory_order_release) & awaited) != 0)
            Platform::notify_all(end_);
    }

    [[nodiscard]] bool done() const noexcept {
        return (end_.load(std::memory_order_acquire) & finished) != 0;  // acquire: see finish()
    }

    /// Waits until it is finished; false at the deadline.
    [[nodiscard]] bool wait(time_point deadline) {
        for (;;) {
            // acquire: pairs with finish().
            const std::uint32_t seen = end_.fetch_or(awaited, std::memory_order_acquire);
            if ((seen & finished) != 0) return true;
            if (!Platform::wait(end_, seen | awaited, deadline)) return done();
        }
    }

    /// An exception left the function.  By the fiber.  True: the caller has to report it (F4).
    [[nodiscard]] bool fail() noexcept {
        // release: the exception; pairs with detach().
        return (end_.fetch_or(failed, std::memory_order_release) & detached) != 0;
    }

    /// It will not be joined.  By its handle.  True: the caller has to report the exception (F4).
    [[nodiscard]] bool detach() noexcept {
        // acquire: the exception; pairs with fail().
        return (end_.fetch_or(detached, std::memory_order_acquire) & failed) != 0;
    }

    /// Whether it has references, and is not finished: for display.
    [[nodiscard]] bool seems_unfinished() const noexcept {
        // relaxed, twice: for display.
        return refs_.load(std::memory_order_relaxed) != 0 &&
               (end_.load(std::memory_order_relaxed) & finished) == 0;
    }

private:
    // Bits of end_.  tools/gdb/verge.py knows `finished`.
    static constexpr std::uint32_t awaited = 1;
    static constexpr std::uint32_t finished = 2;
    static constexpr std::uint32_t detached = 4;
    static constexpr std::uint32_t failed = 8;

    typename Platform::template atomic<std::uint32_t> refs_{0};
    typename Platform::template atomic<std::uint32_t> end_{0};  // a word to wait on
};

using fiber_life = basic_fiber_life<>;

}  // namespace verge::fibers::detail
