// verge/fibers/this_fiber.hpp -- what a fiber can do with itself: sleep, yield, end.
//
//     for (;;) {                                // a stop request ends it, at the sleep
//         beat();
//         verge::this_fiber::sleep_for(100ms);
//     }
//
// All of it may be called from a plain thread too, which then sleeps, or yields, as a thread.
//
// Guarantees, under the names of the tests that hold them
//   NeverWakesEarly              a sleep that has elapsed lasted at least so long.
//   ZeroYields                   a sleep of 0 lets others run.
//   AnInterruptBeforeTheSleepIsRemembered
//   ExitUnwindsTheStack          exit() runs the destructors of all that is on the stack.
//   LocalsAreDestroyedAtTheEnd   of the fiber, last set first.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/fibers/fiber.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace verge::fibers {

enum class sleep_result : std::uint8_t {
    elapsed,      ///< The time has passed.
    interrupted,  ///< fiber::interrupt() ended it.
    stopped,      ///< In a no_unwind scope: a stop, or the deadline in force.
};

/// A variable that each fiber has one of, made when it is first asked for.  Fibers only.
template <class T>
class fiber_local;

}  // namespace verge::fibers

namespace verge::this_fiber {

/// The id of the calling fiber; of none on a plain thread.
[[nodiscard]] fibers::fiber_id id() noexcept;

/// Lets others run that are ready: this one goes to the back.
void yield() noexcept;

/// Sleeps.  A stop request, or the deadline in force, unwinds (verge/sync/cancellation.hpp). Throws
/// std::bad_alloc or std::system_error if the timer thread takes no timer.
fibers::sleep_result sleep_until(time_point deadline);
fibers::sleep_result sleep_for(duration d);

template <coarse_duration Delay>
fibers::sleep_result sleep_for(Delay d) {
    return sleep_for(saturated(d));
}

/// Ends the fiber, by unwinding its stack.  Throws std::logic_error on a plain thread.
[[noreturn]] void exit();

/// Whether a stop was requested of the calling fiber.
[[nodiscard]] bool stop_requested() noexcept;

/// The name, as stop() and debuggers show it.
void set_name(std::string_view name);
[[nodiscard]] std::string name();

}  // namespace verge::this_fiber

namespace verge::fibers {

namespace detail {

using local_destructor = void (*)(void*);
[[nodiscard]] std::size_t new_local_key(local_destructor destroy);
void delete_local_key(std::size_t key) noexcept;
// Of the calling fiber; throws std::logic_error on a plain thread.
[[nodiscard]] void* find_local(std::size_t key);
void add_local(std::size_t key, void* value);

}  // namespace detail

template <class T>
class fiber_local {
public:
    fiber_local() : key_(detail::new_local_key([](void* p) { delete static_cast<T*>(p); })) {}
    /// No fiber that has a value may be left.
    ~fiber_local() { detail::delete_local_key(key_); }
    fiber_local(const fiber_local&) = delete;
    fiber_local& operator=(const fiber_local&) = delete;

    T& operator*() const {
        if (void* const made = detail::find_local(key_)) return *static_cast<T*>(made);
        auto fresh = std::make_unique<T>();  // which may ask for others
        detail::add_local(key_, fresh.get());
        return *fresh.release();
    }
    T* operator->() const { return &**this; }

private:
    std::size_t key_;
};

}  // namespace verge::fibers
