// verge/sync/once.hpp -- call a function exactly once: once_flag and call_once.
//
//     constinit verge::once_flag loaded;
//     verge::call_once(loaded, [] { load_tables(); });
//
// As std::call_once; the function may wait, and fibers that arrive meanwhile free their workers.
// If it throws, its caller gets the exception and the next caller calls it again.  A function that
// calls call_once with its own flag waits for itself.
//
// Guarantees, under the names of the tests that hold them
//   CallsOnce                          all callers return after it, and see what it wrote.
//   AnExceptionLetsTheNextOneTry
//   AnInterruptDoesNotEndIt            it is kept for the next wait that can be interrupted.
//   ADeadlineEndsTheWaitForAnothersCall   and never a call of the caller's own.
//
// States of word_
//
//     fresh --the first caller--> running --another caller--> waited
//     running, waited --it returns--> done            (wakes all, if waited)
//     running, waited --it throws--> fresh            (wakes all, if waited)
//
// Invariants
//   O1  Only the caller that made fresh -> running calls the function and ends that state.
//   O2  done is final.
//
// Memory orders
//   The step to done, or back to fresh, releases; a caller that finds either acquires.
//
// Thread safety: all of it.  Size: 4 bytes; nothing allocates.
// Exceptions: what the function throws; the timed forms also std::system_error and std::bad_alloc,
// if the timer thread refuses a timer: then nothing was called.

#pragma once

#include <verge/sync/detail/deadline_in.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace verge {

class once_flag {
public:
    constexpr once_flag() noexcept = default;
    once_flag(const once_flag&) = delete;
    once_flag& operator=(const once_flag&) = delete;
    ~once_flag() = default;

private:
    template <class Function, class... Args>
    requires std::is_invocable_v<Function, Args...>
    friend bool call_once_until(once_flag& flag, time_point deadline, Function&& function,
                                Args&&... args);

    static constexpr std::uint32_t fresh = 0;
    static constexpr std::uint32_t running = 1;
    static constexpr std::uint32_t waited = 2;
    static constexpr std::uint32_t done = 3;

    [[nodiscard]] bool is_done() const noexcept {
        // acquire: pairs with the release in end().
        return word_.load(std::memory_order_acquire) == done;
    }
    enum class turn { own, over, timed_out };
    // Whether the caller has to call the function, or another has called it, or another still runs
    // it at the deadline.
    [[nodiscard]] turn begin(time_point deadline);
    void end(std::uint32_t how) noexcept;

    // Ends the call: as done, or else back to fresh.
    class call {
    public:
        explicit call(once_flag& flag) noexcept : flag_(flag) {}
        ~call() { flag_.end(how); }
        call(const call&) = delete;
        call& operator=(const call&) = delete;
        std::uint32_t how = fresh;

    private:
        once_flag& flag_;
    };

    // Written by the first caller, and by those that wait for it.
    std::atomic<std::uint32_t> word_{fresh};
};

/// call_once that waits for another caller's call at most until the deadline: false if that call
/// has not returned by then.
template <class Function, class... Args>
requires std::is_invocable_v<Function, Args...>
[[nodiscard]] bool call_once_until(once_flag& flag, time_point deadline, Function&& function,
                                   Args&&... args) {
    if (flag.is_done()) return true;
    const once_flag::turn whose = flag.begin(deadline);
    if (whose != once_flag::turn::own) return whose == once_flag::turn::over;
    once_flag::call call(flag);
    std::invoke(std::forward<Function>(function), std::forward<Args>(args)...);
    call.how = once_flag::done;
    return true;
}

template <detail::sync::delay Limit, class Function, class... Args>
requires std::is_invocable_v<Function, Args...>
[[nodiscard]] bool call_once_for(once_flag& flag, Limit limit, Function&& function,
                                 Args&&... args) {
    return call_once_until(flag, detail::sync::deadline_in(limit), std::forward<Function>(function),
                           std::forward<Args>(args)...);
}

/// Calls function(args...) unless a call with this flag has returned; returns when one has.
template <class Function, class... Args>
requires std::is_invocable_v<Function, Args...>
void call_once(once_flag& flag, Function&& function, Args&&... args) {
    static_cast<void>(call_once_until(flag, never, std::forward<Function>(function),
                                      std::forward<Args>(args)...));
}

}  // namespace verge
