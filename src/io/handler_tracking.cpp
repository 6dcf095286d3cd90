// src/io/handler_tracking.cpp -- writes the lines of handler tracking, if it is on.

#include <verge/base/detail/kernel.hpp>
#include <verge/io/detail/handler_tracking.hpp>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include <time.h>
#include <unistd.h>

namespace verge::detail::io {

namespace {

using call = basic_tracked_call<true>;

std::atomic<std::uint64_t> last_number{0};
constinit thread_local call* innermost_call = nullptr;

std::uint64_t this_handler() noexcept {
    return innermost_call != nullptr ? innermost_call->number() : 0;
}

// One write, so that lines of different threads do not mix.
[[gnu::format(printf, 1, 2)]] void write_line(const char* format, ...) noexcept {
    timespec now{};
    os::clock_gettime(CLOCK_REALTIME, &now);
    char line[256];
    constexpr std::size_t room = sizeof line - 1;  // leaves space for the newline
    const int head = std::snprintf(line, room, "@asio|%lld.%06ld|",
                                   static_cast<long long>(now.tv_sec), now.tv_nsec / 1000);
    auto size = static_cast<std::size_t>(head);
    std::va_list args;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is just above
    const int more = std::vsnprintf(line + size, room - size, format, args);
    va_end(args);
    if (more > 0) size += static_cast<std::size_t>(more);
    if (size > room - 1) size = room - 1;
    line[size++] = '\n';
    static_cast<void>(os::write(STDERR_FILENO, line, size) > 0);
}

}  // namespace

void tracked_handler<true>::created(const handler_origin& from) noexcept {
    // relaxed: numbers have to be unique, and nothing else.
    number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
    write_line("%llu*%llu|%.20s@%p.%.50s", static_cast<unsigned long long>(this_handler()),
               static_cast<unsigned long long>(number), from.type, from.object, from.operation);
}

call::basic_tracked_call(const tracked_handler<true>& of) noexcept
    : number_(of.number), outer_(std::exchange(innermost_call, this)) {}

call::~basic_tracked_call() {
    innermost_call = outer_;
    if (number_ == 0) return;
    if (inside_) write_line("!%llu|", static_cast<unsigned long long>(number_));
    if (!called_) write_line("~%llu|", static_cast<unsigned long long>(number_));
}

void call::begin_with() noexcept {
    inside_ = called_ = true;
    write_line(">%llu|", static_cast<unsigned long long>(number_));
}
void call::begin_with(std::error_code error) noexcept {
    inside_ = called_ = true;
    write_line(">%llu|ec=%.20s:%d", static_cast<unsigned long long>(number_),
               error.category().name(), error.value());
}
void call::begin_with(std::error_code error, std::size_t bytes) noexcept {
    inside_ = called_ = true;
    write_line(">%llu|ec=%.20s:%d,bytes_transferred=%zu", static_cast<unsigned long long>(number_),
               error.category().name(), error.value(), bytes);
}
void call::begin_with(std::error_code error, int signal) noexcept {
    inside_ = called_ = true;
    write_line(">%llu|ec=%.20s:%d,signal_number=%d", static_cast<unsigned long long>(number_),
               error.category().name(), error.value(), signal);
}

void call::end() noexcept {
    inside_ = false;
    write_line("<%llu|", static_cast<unsigned long long>(number_));
}

void write_tracked_operation(const handler_origin& what) noexcept {
    write_line("%llu|%.20s@%p.%.50s", static_cast<unsigned long long>(this_handler()), what.type,
               what.object, what.operation);
}

}  // namespace verge::detail::io
