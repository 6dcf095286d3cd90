// verge/fibers/wait_fd.hpp -- a fiber waits until a file descriptor is ready.
//
//     // examples/fiber_echo.cpp
//     while ((n = ::read(fd, buffer, size)) < 0 && errno == EAGAIN) {
//         if (wait_fd(fd, verge::fd_event::read, deadline) != fd_result::ready) return;
//     }
//
//     const auto [result, came] = wait_fd(fd, fd_event::read | fd_event::write);
//     if (came.contains(fd_event::write)) ...
//
// So a connection is a fiber with sequential code.  One thread of the process, started at the first
// wait, polls (epoll) all descriptors that fibers wait for; if a descriptor is ready already, a
// wait costs one poll().
//
// Guarantees, under the names of the tests that hold them
//   ReturnsWhenReady              and does not change the descriptor.
//   TellsWhichOfASetCame          reports all requested events that are ready, at least one.
//   ReturnsAtItsDeadline          never before it.
//   AnInterruptEndsTheWait        and a stop request.
//   ReadersAndWritersOfOneSocket  may wait at once, any number of each.
//   TimedOutWaitsLeaveNothing     neither memory nor a registration in the kernel.
//
// Thread safety: all of it; a descriptor must not be closed while a fiber waits for it.
// Exceptions: std::invalid_argument for an empty set; std::system_error for a descriptor that is
// not open, or cannot be polled, and if the thread or its epoll is refused; std::bad_alloc.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/driver/reactor.hpp>

#include <cstdint>

namespace verge {

/// A set of fd_event.
class fd_events {
public:
    constexpr fd_events() noexcept = default;
    constexpr fd_events(fd_event one) noexcept  // NOLINT: implicit, as a set of one is
        : bits_(static_cast<std::uint8_t>(1U << static_cast<unsigned>(one))) {}

    [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
    [[nodiscard]] constexpr bool contains(fd_event one) const noexcept {
        return (bits_ & fd_events(one).bits_) != 0;
    }
    constexpr fd_events& operator|=(fd_events other) noexcept {
        bits_ = static_cast<std::uint8_t>(bits_ | other.bits_);
        return *this;
    }
    friend constexpr fd_events operator|(fd_events a, fd_events b) noexcept { return a |= b; }
    friend constexpr bool operator==(fd_events, fd_events) noexcept = default;

private:
    std::uint8_t bits_ = 0;  // 1 << fd_event
};

[[nodiscard]] constexpr fd_events operator|(fd_event a, fd_event b) noexcept {
    return fd_events(a) | fd_events(b);
}

}  // namespace verge

namespace verge::fibers {

enum class fd_result : std::uint8_t {
    ready,        ///< It can be read or written, or has an error to report.
    timed_out,    ///< The deadline has passed.
    interrupted,  ///< fiber::interrupt() ended the wait.
    stopped,      ///< In a no_unwind scope: a stop, or the deadline in force.
};

/// How a wait ended, and with which events.
struct fd_outcome {
    fd_result result = fd_result::ready;
    /// The requested events that are ready; empty unless `result` is ready.  A descriptor with an
    /// error or a hang-up has them all: no operation on it would block.
    fd_events came = {};

    friend constexpr bool operator==(fd_outcome a, fd_result b) noexcept { return a.result == b; }
};

}  // namespace verge::fibers

namespace verge::this_fiber {

/// Waits until `fd` is ready for one of `events`.  On a plain thread it blocks that thread.  A stop
/// request, or the deadline in force, unwinds (verge/sync/cancellation.hpp).
[[nodiscard]] fibers::fd_outcome wait_fd(int fd, fd_events events, time_point deadline = never);

}  // namespace verge::this_fiber
