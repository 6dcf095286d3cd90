// verge/io/detail/handler_tracking.hpp -- writes a line to stderr for each event of a handler.
//
// For debugging, and off by default: the CMake option VERGE_HANDLER_TRACKING defines
// VERGE_ENABLE_HANDLER_TRACKING for the library and for all targets that link to it.  Then every
// handler has a number, and its events are written in the format of Asio's tools (handlerviz.pl):
//
//     @asio|<seconds>.<microseconds>|<event>|<details>
//       0*1   handler 0 (0: none) began the operation whose handler is 1; details: object.operation
//       >1    1 is called; details: its arguments
//       <1    1 returned
//       !1    1 threw
//       ~1    1 was destroyed without a call
//       1     1 did something to an object, such as cancelling a timer; details: object.operation
//
// Whether it is on is part of the type of every operation (basic_operation<true>), so that a
// program and a library that disagree do not link.  When it is off, everything here is empty.
//
// Thread safety: any thread; a line is one write(2).  Exceptions: none.

#pragma once

#include <cstddef>
#include <cstdint>
#include <system_error>
#include <type_traits>

namespace verge::detail::io {

#ifdef VERGE_ENABLE_HANDLER_TRACKING
inline constexpr bool tracks_handlers = true;
#else
inline constexpr bool tracks_handlers = false;
#endif

/// What began an operation: "deadline_timer", its address, "async_wait".  String literals.
struct handler_origin {
    const char* type;
    const void* object;
    const char* operation;
};

/// The number of a handler; 0: it has none.
template <bool Tracked>
struct tracked_handler;
template <>
struct tracked_handler<true> {
    void created(const handler_origin& from) noexcept;
    std::uint64_t number = 0;
};
template <>
struct tracked_handler<false> {
    void created(const handler_origin&) noexcept {}
};

/// On the stack of the thread that completes or destroys an operation, from before its memory is
/// freed.
template <bool Tracked>
class basic_tracked_call;
template <>
class basic_tracked_call<true> {
public:
    explicit basic_tracked_call(const tracked_handler<true>& of) noexcept;
    ~basic_tracked_call();
    basic_tracked_call(const basic_tracked_call&) = delete;
    basic_tracked_call& operator=(const basic_tracked_call&) = delete;

    /// The handler is about to be called with these arguments.
    template <class... Results>
    void begin(const Results&... results) noexcept {
        begin_with(results...);
    }
    /// It has returned.
    void end() noexcept;

    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

private:
    void begin_with() noexcept;
    void begin_with(std::error_code error) noexcept;
    void begin_with(std::error_code error, std::size_t bytes) noexcept;
    void begin_with(std::error_code error, int signal) noexcept;
    template <class Result>
    void begin_with(std::error_code error, const Result&) noexcept {
        begin_with(error);
    }

    const std::uint64_t number_;
    basic_tracked_call* const outer_;  // in this thread
    bool inside_ = false;              // the handler was called, and has not returned
    bool called_ = false;
};
template <>
class basic_tracked_call<false> {
public:
    explicit basic_tracked_call(const tracked_handler<false>&) noexcept {}
    template <class... Results>
    void begin(const Results&...) noexcept {}
    void end() noexcept {}
};

using tracked_call = basic_tracked_call<tracks_handlers>;

/// Something was done to an object, by the handler that this thread runs.
void write_tracked_operation(const handler_origin& what) noexcept;
inline void track_operation(const handler_origin& what) noexcept {
    if constexpr (tracks_handlers) {
        write_tracked_operation(what);
    } else {
        static_cast<void>(what);
    }
}

}  // namespace verge::detail::io
