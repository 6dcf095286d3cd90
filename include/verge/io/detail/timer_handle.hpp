// verge/io/detail/timer_handle.hpp -- a timer, its executor, and the service that keeps it.

#pragma once

#include <verge/io/associated.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/detail/clock_queue.hpp>
#include <verge/io/detail/handler_tracking.hpp>
#include <verge/io/detail/loop_access.hpp>
#include <verge/io/detail/loop_core.hpp>
#include <verge/io/detail/loop_timers.hpp>
#include <verge/io/detail/wait_operation.hpp>
#include <verge/io/execution_context.hpp>
#include <verge/io/wait_traits.hpp>

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

namespace verge::detail::io {

template <class Clock, class Traits>
inline constexpr bool is_monotonic =
    std::is_same_v<Clock, std::chrono::steady_clock>&& std::is_same_v<Traits, wait_traits<Clock>>;

/// What an operation with a cancellation slot leaves there.
template <class Home, class Timer>
struct cancel_wait {
    Home* home;
    std::shared_ptr<wait_place> place;
    void operator()(cancellation_type type) const {
        constexpr cancellation_type known =
            cancellation_type::terminal | cancellation_type::partial | cancellation_type::total;
        if ((type & known) == cancellation_type::none) return;
        if (void* const timer = place->timer()) {
            home->cancel(*static_cast<Timer*>(timer), place->op());
        }
    }
};

template <class Clock, class Traits, class Executor>
class timer_handle {
    using home_type =
        std::conditional_t<is_monotonic<Clock, Traits>, loop_timers, clock_queue<Clock, Traits>>;
    using timer_type =
        std::conditional_t<is_monotonic<Clock, Traits>, loop_timer, clock_timer<Clock, Traits>>;
    // A loop's own executor leads to the service by itself; for others it is kept.
    static constexpr bool finds_home = is_monotonic<Clock, Traits> && is_loop_executor<Executor>;
    struct found {
        explicit found(home_type&) noexcept {}
    };
    struct kept {
        explicit kept(home_type& h) noexcept : home(&h) {}
        home_type* home;
    };

public:
    static constexpr const char* tracking_name = "deadline_timer";  // Asio's, for all clocks

    explicit timer_handle(const Executor& ex) : executor_(ex), home_(find_home(ex)) {}

    // NOLINTNEXTLINE(performance-noexcept-move-constructor): an executor's copy may throw
    timer_handle(timer_handle&& other) : executor_(other.executor_), home_(other.home_) {
        home().move(other.timer_, timer_);
    }
    template <class Other>
    explicit timer_handle(timer_handle<Clock, Traits, Other>&& other)
        : executor_(other.executor()), home_(other.home()) {
        home().move(other.timer(), timer_);
    }
    template <class Other>
    void assign(timer_handle<Clock, Traits, Other>&& other) {
        if (static_cast<const void*>(&other) == this) return;
        home().destroy(timer_);
        executor_ = other.executor();
        home_ = home_ref(other.home());
        home().move(other.timer(), timer_);
    }
    void destroy() { home().destroy(timer_); }
    ~timer_handle() = default;
    timer_handle(const timer_handle&) = delete;
    timer_handle& operator=(const timer_handle&) = delete;
    timer_handle& operator=(timer_handle&&) = delete;

    [[nodiscard]] home_type& home() const {
        if constexpr (finds_home) {
            return *executor_.loop().timers();
        } else {
            return *home_.home;
        }
    }
    [[nodiscard]] timer_type& timer() noexcept { return timer_; }
    [[nodiscard]] const timer_type& timer() const noexcept { return timer_; }
    [[nodiscard]] const Executor& executor() const noexcept { return executor_; }

    /// For handler tracking: what the user does besides.
    void track(const char* what) const noexcept { track_operation({tracking_name, &timer_, what}); }

    /// Begins a wait.  The handler is moved from only if that succeeds in making the operation.
    template <class Handler>
    void wait(Handler& handler) {
        using own = associated_executor_t<Handler, Executor>;
        if constexpr (std::is_same_v<own, Executor>) {
            if (called_by_loop(executor_) &&
                verge::get_associated_executor(handler, executor_) == executor_) {
                begin(wait_with_handler<Handler, call_in_place>::create(handler));
                return;
            }
        }
        begin(wait_with_handler<Handler, call_through<own>>::create(handler, executor_));
    }

private:
    using home_ref = std::conditional_t<finds_home, found, kept>;

    static home_type& find_home(const Executor& ex) {
        loop_core& loop = loop_of(ex);
        if constexpr (is_monotonic<Clock, Traits>) {
            return loop_timers::of(loop);
        } else {
            return use_service<home_type>(loop.context());
        }
    }

    template <class Wait>
    void begin(Wait* wait) {
        wait->created({tracking_name, &timer_, "async_wait"});
        bool has_slot = false;
        try {
            if constexpr (Wait::has_slot) {
                auto slot = verge::get_associated_cancellation_slot(wait->handler());
                has_slot = slot.is_connected();
                using cancel = cancel_wait<home_type, timer_type>;
                if (has_slot) {
                    slot.template emplace<cancel>(cancel{&home(), wait->owner().make(wait)});
                }
            }
            home().wait(timer_, wait, has_slot);
        } catch (...) {
            if constexpr (Wait::has_slot) {
                verge::get_associated_cancellation_slot(wait->handler()).clear();
            }
            static_cast<operation*>(wait)->destroy();
            throw;
        }
    }

    Executor executor_;
    [[no_unique_address]] home_ref home_;
    timer_type timer_;
};

}  // namespace verge::detail::io
