// verge/fiber/wait_fd.hpp -- a fiber waits until a file descriptor is ready.
//
//     while ((n = ::read(fd, buffer, size)) < 0 && errno == EAGAIN) {          //
//     examples/fiber_echo.cpp
//         if (verge::this_fiber::wait_fd(fd, verge::fd_event::read, deadline) !=
//             verge::fibers::fd_result::ready) return;
//     }
//
// So a connection is a fiber that reads like plain code.  One thread of the process, started at the
// first wait, asks the kernel (epoll) for all descriptors that fibers wait for; where a descriptor
// is ready already, a wait costs one poll() and nothing else.
//
// Guarantees, under the names of the tests that hold them
//   ReturnsWhenReady              and leaves the descriptor as it was.
//   ReturnsAtItsDeadline          never before it.
//   AnInterruptEndsTheWait        and a stop request.
//   ReadersAndWritersOfOneSocket  may wait at once, any number of each.
//
// Thread safety: all of it; a descriptor must not be closed while somebody waits for it.
// Exceptions: std::system_error for a descriptor that is none, or cannot be waited for, and if the
// thread or its epoll is refused; std::bad_alloc.

#pragma once

#include <verge/base/clock.hpp>
#include <verge/driver/reactor.hpp>

#include <cstdint>

namespace verge::fibers {

enum class fd_result : std::uint8_t {
    ready,        ///< It can be read or written, or has an error to report.
    timed_out,    ///< The deadline has passed.
    interrupted,  ///< fiber::interrupt() ended the wait.
    stopped,      ///< A stop was requested of the fiber.
};

}  // namespace verge::fibers

namespace verge::this_fiber {

/// Waits until `fd` is ready for `what`.  On a plain thread it blocks that thread.
fibers::fd_result wait_fd(int fd, fd_event what, time_point deadline = never);

}  // namespace verge::this_fiber
