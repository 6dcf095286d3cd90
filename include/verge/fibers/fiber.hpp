// verge/fibers/fiber.hpp -- a fiber that was spawned: join it, detach it, interrupt it.
//
//     verge::fibers::fiber<int> answer = scheduler.spawn([] { return 42; });
//     std::printf("%d\n", answer.join());
//
// It behaves as std::jthread does: the destructor of a handle requests a stop of the fiber and
// joins it.
//
// Guarantees, under the names of the tests that hold them
//   JoinGivesTheValue              or rethrows what left the function.
//   JoinGivesTheReference          fiber<T&>: the object itself, as std::future<T&> does.
//   ManyMayWaitForTheEnd           wait() and wait_until(), from fibers and plain threads.
//   AFiberCannotJoinItself         std::system_error, resource_deadlock_would_occur.
//   AnInterruptIsRemembered        if it finds no wait that it can end, it ends the next one.
//   AStopRequestEndsEveryWait      that can be interrupted, and is visible in its stop_token.
//   AStaleIdIsHarmless             an id never names another fiber.
//
// Thread safety: of a handle as of an int; interrupt(), request_stop() and the waits from any
// thread while no other thread moves, joins or destroys it.
// Exceptions: join() throws what left the function; the rest as said.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/sync/wait_kind.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

namespace verge::fibers {

/// The id of one fiber; never reused.  8 bytes; a default-constructed one names none.
class fiber_id {
public:
    constexpr fiber_id() noexcept = default;
    constexpr explicit fiber_id(std::uint64_t value) noexcept : value_(value) {}
    [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }
    constexpr explicit operator bool() const noexcept { return value_ != 0; }
    friend constexpr bool operator==(fiber_id, fiber_id) noexcept = default;

private:
    std::uint64_t value_ = 0;
};

/// The stack that a fiber runs on.
enum class stack_kind : std::uint8_t {
    small,   ///< For leaf work: options::small_stack.
    normal,  ///< options::normal_stack.
    large,   ///< For deep recursion and third-party libraries: options::large_stack.
    native,  ///< The worker's own stack.  Never migrates; its waits block that worker.
};

namespace detail {

struct fiber_record;

/// A counted reference to a fiber.
class fiber_ref {
public:
    fiber_ref() noexcept = default;
    explicit fiber_ref(fiber_record* record) noexcept : record_(record) {}
    fiber_ref(fiber_ref&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
    fiber_ref& operator=(fiber_ref&& other) noexcept {
        fiber_ref old(std::move(*this));
        record_ = std::exchange(other.record_, nullptr);
        return *this;
    }
    fiber_ref(const fiber_ref&) = delete;
    fiber_ref& operator=(const fiber_ref&) = delete;
    ~fiber_ref() {
        if (record_ != nullptr) release();
    }

    explicit operator bool() const noexcept { return record_ != nullptr; }
    [[nodiscard]] fiber_record* get() const noexcept { return record_; }

    [[nodiscard]] fiber_id id() const noexcept;
    [[nodiscard]] bool wait_until(time_point deadline) const;
    [[nodiscard]] bool done() const noexcept;
    void rethrow() const;                   // the exception that left the function, if any; once
    void hand_over_error() const noexcept;  // passes it to the scheduler's handler
    void interrupt() const noexcept;
    void request_stop() const noexcept;
    void detach() noexcept;
    void stop_and_join() const noexcept;  // called by the fiber itself: terminates
    [[nodiscard]] std::stop_token stop_token() const noexcept;

private:
    void release() noexcept;

    fiber_record* record_ = nullptr;
};

// The return value of a fiber's function, kept for join().
template <class T>
struct fiber_value {
    using kept = std::optional<T>;
    static T take(kept& from) { return std::move(from.value()); }
    std::shared_ptr<kept> value;
};
template <class T>
struct fiber_value<T&> {
    using kept = std::optional<std::reference_wrapper<T>>;
    static T& take(kept& from) { return from.value(); }
    std::shared_ptr<kept> value;
};
template <>
struct fiber_value<void> {};

}  // namespace detail

template <class T = void>
class [[nodiscard(
    "a fiber whose handle is destroyed is stopped and joined: keep or detach() it")]] fiber {
public:
    /// No fiber.
    fiber() noexcept = default;
    fiber(fiber &&) noexcept = default;
    /// Stops and joins the fiber that was held.
    fiber& operator=(fiber&& other) noexcept {
        if (this != &other) {
            end();
            ref_ = std::move(other.ref_);
            value_ = std::move(other.value_);
        }
        return *this;
    }
    ~fiber() {
        end();
    }
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;

    /// Whether the handle refers to a fiber.
    [[nodiscard]] bool joinable() const noexcept {
        return static_cast<bool>(ref_);
    }
    /// The id of the fiber; an empty one if there is none.
    [[nodiscard]] fiber_id id() const noexcept {
        return ref_ ? ref_.id() : fiber_id{};
    }

    /// Whether the fiber has ended.
    [[nodiscard]] bool done() const noexcept {
        return ref_ && ref_.done();
    }

    /// Waits for the end; the handle is unchanged.  Throws std::system_error: invalid_argument if
    /// there is no fiber, resource_deadlock_would_occur if the fiber itself calls it.  Not ended by
    /// an interrupt.
    void wait() const {
        static_cast<void>(ref_.wait_until(never));
    }

    /// The same until `deadline`.  Returns whether the fiber has ended.
    [[nodiscard]] bool wait_until(time_point deadline) const {
        return ref_.wait_until(deadline);
    }
    [[nodiscard]] bool wait_for(duration d) const {
        return ref_.wait_until(deadline_after(steady_source{}.now(), d));
    }
    template <other_duration Delay>
    [[nodiscard]] bool wait_for(Delay d) const {
        return wait_for(saturated(d));
    }

    /// Waits for the end and returns the value, or throws the exception that left the function; or
    /// std::bad_optional_access if the fiber ended by this_fiber::exit().  Empties the handle.
    T join() {
        wait();
        const detail::fiber_ref ref = std::move(ref_);
        ref.rethrow();
        if constexpr (!std::is_void_v<T>)
            return detail::fiber_value<T>::take(*std::exchange(value_, {}).value);
    }

    /// Lets it run without a handle.  An exception that leaves its function goes to on_exception.
    void detach() noexcept {
        ref_.detach();
        ref_ = {};
        value_ = {};
    }

    /// Ends the fiber's present wait, or else its next one: see wait_result::interrupted.
    void interrupt() const noexcept {
        if (ref_) ref_.interrupt();
    }

    /// Ends the fiber's present wait and every later one, and sets its std::stop_token.
    void request_stop() const noexcept {
        if (ref_) ref_.request_stop();
    }
    /// The token that request_stop() sets.
    [[nodiscard]] std::stop_token get_stop_token() const noexcept {
        return ref_.stop_token();
    }

private:
    friend class scheduler;
    fiber(detail::fiber_ref ref, detail::fiber_value<T> value) noexcept
        : ref_(std::move(ref)), value_(std::move(value)) {}

    void end() noexcept {
        if (!ref_) return;
        ref_.stop_and_join();
        ref_ = {};
    }

    detail::fiber_ref ref_;
    [[no_unique_address]] detail::fiber_value<T> value_;
};

}  // namespace verge::fibers

template <>
struct std::hash<verge::fibers::fiber_id> {
    std::size_t operator()(verge::fibers::fiber_id id) const noexcept {
        return std::hash<std::uint64_t>{}(id.value());
    }
};
