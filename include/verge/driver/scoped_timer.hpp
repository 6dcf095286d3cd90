// verge/driver/scoped_timer.hpp -- a timer that is cancelled when it goes out of scope.
//
//     {
//         verge::scoped_timer watchdog(timers, timers.schedule_after(1s, [&] { complain(); }));
//         work();
//     }   // from here on it is not running, and will not run

#pragma once

#include <verge/driver/timer_thread.hpp>

#include <utility>

namespace verge {

/// Owns one timer of a timer_thread, which must outlive it.
///
/// Thread safety: as an int.  Other threads may cancel the timer by its id meanwhile.
class scoped_timer {
public:
    scoped_timer() noexcept = default;
    scoped_timer(timer_thread& timers, timer_id id) noexcept : timers_(&timers), id_(id) {}
    scoped_timer(scoped_timer&& other) noexcept
        : timers_(std::exchange(other.timers_, nullptr)), id_(std::exchange(other.id_, {})) {}
    scoped_timer& operator=(scoped_timer&& other) noexcept {
        if (this != &other) {
            cancel();
            timers_ = std::exchange(other.timers_, nullptr);
            id_ = std::exchange(other.id_, {});
        }
        return *this;
    }
    scoped_timer(const scoped_timer&) = delete;
    scoped_timer& operator=(const scoped_timer&) = delete;

    /// Cancels the timer; if its callback is running, waits until it returns, unless called from
    /// that callback.
    ~scoped_timer() { cancel(); }

    /// The same, now.
    cancel_result cancel() noexcept {
        timer_thread* const timers = std::exchange(timers_, nullptr);
        const timer_id id = std::exchange(id_, {});
        return timers == nullptr ? cancel_result::gone : timers->cancel_and_wait(id);
    }

    /// Gives up ownership without cancelling.  Returns the id.
    timer_id release() noexcept {
        timers_ = nullptr;
        return std::exchange(id_, {});
    }

    [[nodiscard]] timer_id id() const noexcept { return id_; }

private:
    timer_thread* timers_ = nullptr;
    timer_id id_;
};

}  // namespace verge
