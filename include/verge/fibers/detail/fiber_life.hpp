// verge/fibers/detail/fiber_life.hpp -- who still needs a fiber, and who waits for its end.
//
//     spawner:   life.begin(joinable)    ...    its handle:  life.wait(deadline)  ...  life.drop()
//     worker:    life.finish()  ...  life.drop()
//
// It stands in a record that is used again, so whoever finds the record by an id, or in the pool,
// asks first: life.try_add().
//
// States of refs_: how many refer to the fiber.  0: nobody's, free or about to be.  A life begins
// with the reference of the fiber itself, until it is over, and the one of its handle.
//
// States of end_: bits, which are set once a life.
//   awaited   somebody waits for the end       finished  it has left its stack
//   detached  nobody will join                 failed    an exception left its function
//
// Invariants
//   F1  Who looks at a fiber has a reference.  From 0 only begin() leads away.
//   F2  Who drops the last one comes after all that others did with it, and is alone.
//   F3  Who waits says so before it looks; the worker says that it is finished, then looks who
//       waits.  All are read-modify-writes of one word: the later one sees the earlier one.
//   F4  Of the fiber that fails and the one who lets go of it, the second one reports the error.
//   F5  A scheduler that stops asks every fiber to stop: it says so (census::close()), then looks
//       at every record; who spawns begins the life, then looks whether the scheduler stops.
//
// Memory orders
//   finish() releases what the fiber wrote; who finds it finished acquires that, also past the bits
//   that others have set since.  fail() releases the exception, detach() acquires it; the other way
//   round nothing is handed over.  A drop releases, and the last one acquires (F2).  begin()
//   releases the record, and the first look of try_add() acquires it; both are seq_cst, for F5.
//   tests/model/fiber_life_model.cpp explores this source.

#pragma once

#include <verge/base/clock.hpp>

#include <atomic>
#include <cstdint>

namespace verge::fibers::detail {

/// What a life needs from below.  The tests supply a model.
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
    // ---- who refers to it -----------------------------------------------------------------------

    /// The record can be found from now on.  By who spawns, who looks after this whether the
    /// scheduler stops (F5).
    void begin(bool joinable) noexcept {
        end_.store(joinable ? 0 : detached, std::memory_order_relaxed);  // relaxed: by the next
        // seq_cst: before that look; pairs with try_add().
        refs_.store(joinable ? 2 : 1, std::memory_order_seq_cst);
    }

    /// One reference more.  By who has one.
    void add() noexcept {
        refs_.fetch_add(1, std::memory_order_relaxed);  // relaxed: it is not the last one
    }

    /// The same, by who has none.  False: it is nobody's.  The record must not become another
    /// fiber's meanwhile: call it under the pool's lock.
    [[nodiscard]] bool try_add() noexcept {
        // seq_cst: after the scheduler has said that it stops, and the record; pairs with begin().
        std::uint32_t refs = refs_.load(std::memory_order_seq_cst);
        do {
            if (refs == 0) return false;
            // relaxed: the load has seen this life's begin().
        } while (!refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed,
                                              std::memory_order_relaxed));
        return true;
    }

    /// One less.  True: that was the last one, and the record is the caller's.
    [[nodiscard]] bool drop() noexcept {
        // acq_rel: what was done with the fiber, for the last one (F2).
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

    /// An exception left the function.  By the fiber.  True: the caller is to report it (F4).
    [[nodiscard]] bool fail() noexcept {
        // release: the exception; pairs with detach().
        return (end_.fetch_or(failed, std::memory_order_release) & detached) != 0;
    }

    /// Nobody will join.  By its handle.  True: the caller is to report the exception (F4).
    [[nodiscard]] bool detach() noexcept {
        // acquire: the exception; pairs with fail().
        return (end_.fetch_or(detached, std::memory_order_acquire) & failed) != 0;
    }

    /// Whether it is somebody's, and not finished: to show.
    [[nodiscard]] bool seems_unfinished() const noexcept {
        // relaxed, twice: something to show.
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
