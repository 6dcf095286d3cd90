// src/base/futex.cpp -- the futex system calls of futex_platform.

#include <verge/base/detail/kernel.hpp>
#include <verge/base/parker.hpp>

#include <cerrno>
#include <limits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace verge {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4, "the kernel reads the word as 32 bits");

namespace {

// The result is ignored, so errno is restored: a sleep must not change the caller's errno.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* until) noexcept {
    const int kept = errno;
    detail::os::futex(&word, operation, value, until);
    errno = kept;
}

}  // namespace

void futex_platform::wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                          time_point deadline) noexcept {
    timespec at{};
    const timespec* until = nullptr;
    if (deadline != never) {
        // A time before the epoch of CLOCK_MONOTONIC has passed; the kernel would return EINVAL.
        if (deadline < time_point{}) return;
        // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so an early return
        // (signal, spurious wake) cannot stretch the total wait, as a relative time would.
        constexpr long long per_second = 1'000'000'000;
        const long long ns = deadline.time_since_epoch().count();
        at.tv_sec = static_cast<time_t>(ns / per_second);
        at.tv_nsec = static_cast<long>(ns % per_second);
        until = &at;
    }
    // The result is ignored on purpose: every caller checks the word again, whether it was woken,
    // timed out, was interrupted, or the word had changed.
    futex(word, FUTEX_WAIT_BITSET_PRIVATE, expected, until);
}

void futex_platform::wake_one(std::atomic<std::uint32_t>& word) noexcept {
    futex(word, FUTEX_WAKE_PRIVATE, 1, nullptr);
}

void futex_platform::wake_all(std::atomic<std::uint32_t>& word) noexcept {
    futex(word, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max(), nullptr);
}

}  // namespace verge
