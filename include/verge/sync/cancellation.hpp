// verge/sync/cancellation.hpp -- stops, time limits and deadlines for plain code that waits.
//
//     auto reply = verge::run_within(200ms, [&] { return fetch(key); });   //
//     examples/fiber_deadline.cpp if (!reply) return use_cache(key);                  // a wait
//     inside fetch() came to its deadline
//
//     ~session() {
//         static_cast<void>(verge::shield(50ms, [&] { send_goodbye(); }));  // cleanup may wait a
//         little
//     }
//
// One rule for fibers, and for threads where it applies to them: **a stop request, or a deadline in
// force that has passed, unwinds at the next wait.**  The wait throws forced_unwind, destructors
// run, and the fiber ends quietly, or the run_within() whose deadline it was returns.  So a loop
// such as `for (;;) { beat(); sleep_for(1s); }` ends, and none can spin.  Only a wait's own limit
// returns `timed_out`.
//
// Which functions wait: sleeps, wait(), the waits of events, latches, semaphores and condition
// variables, joins, wait_fd().  Locks (mutex, shared_mutex, once) and the library's destructors
// never unwind, nor does yield().
//
// Deadlines only narrow: the deadline in force is the earliest of all scopes around the caller, and
// a fiber spawned inside one inherits it.  shield() is the one way out.
//
// Not for ending code that computes and never waits: it has to ask this_fiber::stop_requested().
//
// Guarantees, under the names of the tests that hold them (tests/unit/sync/cancellation_test.cpp)
//   AStopUnwindsAtTheNextWait       also one that came before the wait.
//   ADeadlineEndsALoopOfWaits       run_within() returns, and everything on the way was destroyed.
//   AResultThatCameAnywayIsReturned also if the deadline has passed meanwhile.
//   TheEarliestScopeIsTold          an outer deadline passes through inner scopes untouched.
//   AShieldLetsCleanupWait          but not longer than its limit.
//   ADestructorIsNotUnwound         that runs because of an exception: its waits are not ended.
//   WithoutUnwindingAWaitReturnsStopped
//
// A destructor that runs in the normal course of things, and waits, must use shield(): what is
// thrown out of a destructor ends the program.  `catch (...)` that does not throw again swallows
// the unwinding, and the next wait throws again; debug builds abort at the hundredth time in a row.
//
// Thread safety: a scope belongs to the fiber or thread that made it.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/sync/detail/waiter.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace verge {

/// Turns unwinding off for the waits of a scope: they return `stopped` instead.  Keep it around as
/// little as one wait: a loop inside that does not look at the result spins.
class [[nodiscard]] no_unwind {
public:
    no_unwind() noexcept : self_(detail::sync::current()) { self_.forbid_unwinding(); }
    ~no_unwind() { self_.allow_unwinding(); }
    no_unwind(const no_unwind&) = delete;
    no_unwind& operator=(const no_unwind&) = delete;

private:
    detail::sync::waiter& self_;
};

/// How a function with a deadline ended, if it returns nothing.
enum class deadline_result : std::uint8_t {
    completed,  ///< It returned.
    timed_out,  ///< A wait of it came to the deadline, and it was unwound.
};

/// The deadline in force for the caller; `never` if there is none.
[[nodiscard]] time_point current_deadline() noexcept;

/// How long until then: what a call to another machine sends along.  duration::max() if there is
/// none, 0 if it has passed.
[[nodiscard]] duration remaining() noexcept;

/// How often in this process an unwinding was swallowed: a wait had to throw once more.
[[nodiscard]] std::uint64_t swallowed_unwinds() noexcept;

namespace detail::sync {

/// Puts a deadline in force for a scope, and ends it.
class deadline_scope {
public:
    enum class kind : std::uint8_t { narrows, shields };
    deadline_scope(time_point deadline, kind how) noexcept;
    ~deadline_scope();
    deadline_scope(const deadline_scope&) = delete;
    deadline_scope& operator=(const deadline_scope&) = delete;

    /// Whether this scope's deadline is the reason: no other one around it is as early.
    [[nodiscard]] bool is_reason_of(const forced_unwind& why) noexcept;

private:
    waiter& self_;
    const waiter::context before_;
    const bool is_earliest_;
};

template <class F>
auto run_in(deadline_scope& scope, F&& f) {
    using result = std::remove_cv_t<std::invoke_result_t<F>>;
    static_assert(!std::is_reference_v<result>, "return a pointer, or a value");
    try {
        if constexpr (std::is_void_v<result>) {
            std::forward<F>(f)();
            return deadline_result::completed;
        } else {
            return std::optional<result>(std::forward<F>(f)());
        }
    } catch (const forced_unwind& why) {
        if (!scope.is_reason_of(why)) throw;
    }
    if constexpr (std::is_void_v<result>) {
        return deadline_result::timed_out;
    } else {
        return std::optional<result>();
    }
}

}  // namespace detail::sync

/// Calls `f` with a deadline in force: the earlier of this and the one around it.  Returns its
/// value as a std::optional, empty if a wait inside came to this deadline; a deadline_result if `f`
/// returns nothing.  A stop, or an earlier deadline of a scope around it, passes through.
template <std::invocable F>
[[nodiscard]] auto run_until(time_point deadline, F&& f) {
    detail::sync::deadline_scope scope(deadline, detail::sync::deadline_scope::kind::narrows);
    return detail::sync::run_in(scope, std::forward<F>(f));
}

/// run_until(now + limit).
template <std::invocable F>
[[nodiscard]] auto run_within(duration limit, F&& f) {
    return run_until(deadline_after(steady_source{}.now(), limit), std::forward<F>(f));
}
template <other_duration Limit, std::invocable F>
[[nodiscard]] auto run_within(Limit limit, F&& f) {
    return run_within(saturated(limit), std::forward<F>(f));
}

/// Calls `f` without regard to stops and deadlines around it, for at most `limit`: for cleanup that
/// has to wait.  Returns as run_until() does, and never unwinds itself.
template <std::invocable F>
[[nodiscard]] auto shield(duration limit, F&& f) {
    detail::sync::deadline_scope scope(deadline_after(steady_source{}.now(), limit),
                                       detail::sync::deadline_scope::kind::shields);
    return detail::sync::run_in(scope, std::forward<F>(f));
}
template <other_duration Limit, std::invocable F>
[[nodiscard]] auto shield(Limit limit, F&& f) {
    return shield(saturated(limit), std::forward<F>(f));
}

}  // namespace verge
