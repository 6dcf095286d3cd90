// verge/fibers/this_fiber.hpp -- what a fiber can do with itself: sleep, yield, end.
//
//     for (;;) {                                // a stop request ends it, at the sleep
//         beat();
//         verge::this_fiber::sleep_for(100ms);
//     }
//
// All of it may be called from a plain thread, too, which then sleeps or yields as a thread, except
// exit() and fiber_local.
//
// Guarantees, under the names of the tests that hold them
//   NeverWakesEarly              an elapsed sleep has lasted at least its duration.
//   ZeroYields                   a sleep of 0 lets others run.
//   AnInterruptBeforeTheSleepIsRemembered
//   ExitUnwindsTheStack          exit() runs the destructors of all that is on the stack.
//   LocalsAreDestroyedAtTheEnd   of the fiber, last set first.
//
// Thread safety: each function concerns the calling fiber or thread only.
// Exceptions: sleeps throw std::bad_alloc or std::system_error if the timer thread refuses a timer.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/fibers/fiber.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace verge::fibers {

/// Why a sleep ended.
enum class sleep_result : std::uint8_t {
    elapsed,      ///< The time has passed.
    interrupted,  ///< fiber::interrupt() ended it.
    stopped,      ///< In a no_unwind scope: a stop, or the deadline in force.
};

/// A variable with one value per fiber, constructed on first access.  Fibers only.
template <class T>
class fiber_local;

}  // namespace verge::fibers

namespace verge::this_fiber {

/// The id of the calling fiber; an empty id on a plain thread.
[[nodiscard]] fibers::fiber_id id() noexcept;

/// Lets other ready fibers run: this one goes to the end of the run queue.
void yield() noexcept;

/// Sleeps until `deadline`, or until an interrupt, which may have come before.  A deadline that has
/// passed yields.  A stop request, or the deadline in force, unwinds (verge/sync/cancellation.hpp).
/// Throws std::bad_alloc or std::system_error if the timer thread refuses a timer.
fibers::sleep_result sleep_until(time_point deadline);
fibers::sleep_result sleep_for(duration d);

template <other_duration Delay>
fibers::sleep_result sleep_for(Delay d) {
    return sleep_for(saturated(d));
}

/// Ends the fiber by unwinding its stack with an exception, which catch (...) must rethrow.  Throws
/// std::logic_error on a plain thread.
[[noreturn]] void exit();

/// Whether a stop of the calling fiber was requested.
[[nodiscard]] bool stop_requested() noexcept;

/// The name, as stop() and debuggers show it.  On a plain thread set_name() does nothing and name()
/// is empty.  Both may throw std::bad_alloc.
void set_name(std::string_view name);
[[nodiscard]] std::string name();

}  // namespace verge::this_fiber

namespace verge::fibers {

namespace detail {

using local_destructor = void (*)(void*);
[[nodiscard]] std::size_t new_local_key(local_destructor destroy);
void delete_local_key(std::size_t key) noexcept;
// The value of the calling fiber; throws std::logic_error on a plain thread.
[[nodiscard]] void* find_local(std::size_t key);
void add_local(std::size_t key, void* value);

}  // namespace detail

/// A variable with one value per fiber, as thread_local is per thread.  Values are on the heap, and
/// are destroyed when their fiber ends.
template <class T>
class fiber_local {
public:
    fiber_local() : key_(detail::new_local_key([](void* p) { delete static_cast<T*>(p); })) {}
    /// Precondition: no fiber has a value of it any more.
    ~fiber_local() { detail::delete_local_key(key_); }
    fiber_local(const fiber_local&) = delete;
    fiber_local& operator=(const fiber_local&) = delete;

    /// The value of the calling fiber, default constructed on first access.  Throws
    /// std::logic_error on a plain thread, std::bad_alloc, and what T's constructor throws.
    T& operator*() const {
        if (void* const made = detail::find_local(key_)) return *static_cast<T*>(made);
        auto fresh = std::make_unique<T>();  // whose constructor may access other variables
        detail::add_local(key_, fresh.get());
        return *fresh.release();
    }
    T* operator->() const { return &**this; }

private:
    std::size_t key_;
};

}  // namespace verge::fibers
